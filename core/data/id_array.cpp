#include "core/data/id_array.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/base/error.h"

namespace longwave {
namespace {

// Headers of foreign formats can leave ids unaligned, so each goes through memcpy; compilers make it a plain load.
template <class Id>
Id load(const std::byte* data, std::int64_t index) {
  Id id;
  std::memcpy(&id, data + index * static_cast<std::int64_t>(sizeof(Id)), sizeof(Id));
  return id;
}

template <class Id>
std::int64_t first_above(const std::byte* data, std::int64_t limit, std::int64_t begin, std::int64_t n) {
  std::uint32_t largest = 0;
  for (std::int64_t i = begin; i < begin + n; ++i) largest = std::max<std::uint32_t>(largest, load<Id>(data, i));
  if (static_cast<std::int64_t>(largest) < limit) return -1;
  for (std::int64_t i = begin; i < begin + n; ++i) {
    if (static_cast<std::int64_t>(load<Id>(data, i)) >= limit) return i;
  }
  return -1;
}

}  // namespace

std::int64_t IdArray::at(std::int64_t index) const {
  return width == 2 ? std::int64_t{load<std::uint16_t>(data, index)} : std::int64_t{load<std::uint32_t>(data, index)};
}

void IdArray::widen(std::int64_t begin, std::int64_t n, std::int32_t* out) const {
  if (width == 2) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = load<std::uint16_t>(data, begin + i);
  } else {
    std::memcpy(out, data + begin * 4, static_cast<std::size_t>(n) * 4);
  }
}

std::int64_t IdArray::find_above(std::int64_t limit, std::int64_t begin, std::int64_t n) const {
  return width == 2 ? first_above<std::uint16_t>(data, limit, begin, n) : first_above<std::uint32_t>(data, limit, begin, n);
}

std::int64_t id_limit(std::int64_t file_vocabulary, std::int64_t model_vocabulary) {
  std::int64_t limit = std::int64_t{1} << 31;
  if (file_vocabulary > 0) limit = std::min(limit, file_vocabulary);
  if (model_vocabulary > 0) limit = std::min(limit, model_vocabulary);
  return limit;
}

void check_ids(const IdArray& ids, std::int64_t limit, std::int64_t begin, std::int64_t n, const std::string& path,
               std::int64_t data_offset) {
  const std::int64_t bad = ids.find_above(limit, begin, n);
  if (bad < 0) return;
  throw data_error(
      "{}: token {} (byte offset {}) has id {}, but the vocabulary ends at {}; check model.vocabulary, "
      "data.dtype and which tokenizer made the file",
      path, bad, data_offset + bad * ids.width, ids.at(bad), limit);
}

void check_range(std::int64_t begin, std::int64_t count, std::int64_t size, const std::string& name) {
  LONGWAVE_CHECK(begin >= 0 && count >= 0 && begin <= size && count <= size - begin, "tokens {} + {} of {} ({} tokens)", begin,
                 count, name, size);
}

}  // namespace longwave
