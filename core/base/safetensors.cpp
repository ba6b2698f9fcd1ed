#include "core/base/safetensors.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string_view>

#include "core/base/error.h"

namespace longwave {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::size_t length_bytes = 8;
// A header of ours begins like this, so the checksum's sixteen digits have one place. They count as zeros in the checksum.
constexpr std::string_view checksum_prefix = R"({"__metadata__":{"xxh3":")";
constexpr std::size_t checksum_digits = 16;
constexpr std::uint64_t checksum_offset = length_bytes + checksum_prefix.size();

std::string checksum_of(const File& file) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
  LONGWAVE_CHECK(state != nullptr && XXH3_64bits_reset(state.get()) == XXH_OK);
  const std::uint64_t size = file.size();
  std::vector<char> piece(std::min(size, std::uint64_t{1} << 20));
  for (std::uint64_t offset = 0; offset < size; offset += piece.size()) {
    const std::size_t bytes = std::min<std::uint64_t>(piece.size(), size - offset);
    file.read_at(piece.data(), bytes, offset);
    if (offset == 0) std::memset(piece.data() + checksum_offset, '0', checksum_digits);
    XXH3_64bits_update(state.get(), piece.data(), bytes);
  }
  return fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path, const std::vector<TensorSpec>& tensors, const Metadata& metadata)
    : file_(path) {
  std::vector<SafetensorsEntry> entries;
  for (const TensorSpec& tensor : tensors) entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
  Metadata all = {{"xxh3", std::string(checksum_digits, '0')}};
  all.insert(all.end(), metadata.begin(), metadata.end());
  const std::string header = format_safetensors_header(entries, all);
  LONGWAVE_CHECK(header.starts_with(checksum_prefix) && header.size() <= max_safetensors_header);

  const std::uint64_t length = header.size();
  file_.file().write_at(&length, length_bytes, 0);
  file_.file().write_at(header.data(), header.size(), length_bytes);
  data_begin_ = length_bytes + length;
  if (!entries.empty()) data_bytes_ = entries.back().end;
  for (SafetensorsEntry& entry : entries) tensors_.emplace(entry.name, entry);
}

void SafetensorsWriter::write(const std::string& tensor, const void* data, std::size_t bytes, std::uint64_t offset) {
  const auto found = tensors_.find(tensor);
  LONGWAVE_CHECK(found != tensors_.end(), "{}: no tensor {} was declared", file_.path(), tensor);
  const SafetensorsEntry& entry = found->second;
  LONGWAVE_CHECK(offset <= entry.bytes() && bytes <= entry.bytes() - offset, "{}: [{}, +{}) of {} bytes", tensor, offset, bytes,
                 entry.bytes());
  file_.file().write_at(data, bytes, data_begin_ + entry.begin + offset);
  written_ += bytes;
}

void SafetensorsWriter::commit() {
  LONGWAVE_CHECK(written_ == data_bytes_, "{}: {} of {} bytes were written", file_.path(), written_, data_bytes_);
  const std::string checksum = checksum_of(file_.file());
  file_.file().write_at(checksum.data(), checksum.size(), checksum_offset);
  file_.commit();
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(File::open(path)) {
  const std::uint64_t size = file_.size();
  if (size < length_bytes) throw data_error("{}: {} bytes are too short for a safetensors file", path, size);
  std::uint64_t length = 0;
  file_.read_at(&length, length_bytes, 0);
  if (length > max_safetensors_header) {
    throw data_error("{}: not a safetensors file: a header of {} bytes is over the limit of {}", path, length,
                     max_safetensors_header);
  }
  if (length > size - length_bytes) {
    throw data_error("{}: truncated or not a safetensors file: {} bytes cannot hold a header of {}", path, size, length);
  }
  std::string text(length, '\0');
  file_.read_at(text.data(), length, length_bytes);
  data_begin_ = length_bytes + length;
  header_ = parse_safetensors_header(text, size - data_begin_, path);
}

const SafetensorsEntry* SafetensorsFile::find(const std::string& name) const {
  const auto found = std::find_if(header_.tensors.begin(), header_.tensors.end(),
                                  [&](const SafetensorsEntry& tensor) { return tensor.name == name; });
  return found == header_.tensors.end() ? nullptr : &*found;
}

const SafetensorsEntry& SafetensorsFile::require(const TensorSpec& expected) const {
  const SafetensorsEntry* tensor = find(expected.name);
  if (tensor == nullptr) throw data_error("{}: there is no tensor {}", path(), expected.name);
  if (tensor->dtype != expected.dtype || tensor->shape != expected.shape) {
    throw data_error("{}: {} is {} [{}], expected {} [{}]", path(), expected.name, safetensors_name(tensor->dtype),
                     fmt::join(tensor->shape, ", "), safetensors_name(expected.dtype), fmt::join(expected.shape, ", "));
  }
  return *tensor;
}

void SafetensorsFile::read(const SafetensorsEntry& tensor, void* out, std::size_t bytes, std::uint64_t offset) const {
  LONGWAVE_CHECK(offset <= tensor.bytes() && bytes <= tensor.bytes() - offset, "{}: [{}, +{}) of {} bytes", tensor.name, offset,
                 bytes, tensor.bytes());
  file_.read_at(out, bytes, data_begin_ + tensor.begin + offset);
}

void SafetensorsFile::read_rows(const SafetensorsEntry& tensor, std::int64_t begin, std::int64_t end, void* out) const {
  LONGWAVE_CHECK(!tensor.shape.empty() && 0 <= begin && begin <= end && end <= tensor.shape[0], "{}: rows [{}, {})", tensor.name,
                 begin, end);
  if (begin == end) return;
  const std::uint64_t row = tensor.bytes() / static_cast<std::uint64_t>(tensor.shape[0]);
  read(tensor, out, static_cast<std::uint64_t>(end - begin) * row, static_cast<std::uint64_t>(begin) * row);
}

bool SafetensorsFile::has_checksum() const {
  const auto checksum = header_.metadata.find("xxh3");
  if (checksum == header_.metadata.end() || checksum->second.size() != checksum_digits) return false;
  std::array<char, checksum_prefix.size() + checksum_digits> start{};
  if (data_begin_ < length_bytes + start.size()) return false;
  file_.read_at(start.data(), start.size(), length_bytes);
  return std::string_view(start.data(), start.size()) == std::string(checksum_prefix) + checksum->second;
}

void SafetensorsFile::verify() const {
  if (!has_checksum()) throw data_error("{}: carries no checksum of ours", path());
  const std::string& expected = header_.metadata.at("xxh3");
  const std::string found = checksum_of(file_);
  if (found != expected) throw data_error("{}: corrupted: checksum {}, expected {}", path(), found, expected);
}

}  // namespace longwave
