#include "core/data/raw_tokens.h"

#include <cstring>
#include <string_view>

#include "core/base/error.h"

namespace longwave {
namespace {

constexpr std::int32_t llmc_magic = 20240520;
constexpr std::int64_t llmc_header_bytes = 256 * 4;

std::int32_t header_word(const MappedFile& file, std::size_t index) {
  std::int32_t word;
  std::memcpy(&word, file.data() + index * sizeof(word), sizeof(word));
  return word;
}

}  // namespace

RawTokens::RawTokens(MappedFile file, std::int64_t data_offset, int width, std::int64_t count, std::int64_t model_vocabulary)
    : file_(std::move(file)),
      data_offset_(data_offset),
      ids_{file_.data() + data_offset, width, count},
      limit_(id_limit(0, model_vocabulary)) {}

bool RawTokens::recognises_llmc(const MappedFile& file) { return file.size() >= 4 && header_word(file, 0) == llmc_magic; }

std::unique_ptr<RawTokens> RawTokens::open_llmc(MappedFile file, std::int64_t model_vocabulary) {
  const std::string& path = file.path();
  const auto size = static_cast<std::int64_t>(file.size());
  if (size < llmc_header_bytes) {
    throw data_error("{}: truncated: an llm.c header has {} bytes, the file {}; copy it again", path, llmc_header_bytes, size);
  }
  if (const std::int32_t version = header_word(file, 1); version != 1) {
    throw data_error("{}: llm.c token file version {} (offset 4); version 1 with uint16 ids can be read", path, version);
  }
  // llm.c stores the count as int32 but writes it modulo 2^32, so it is compared as unsigned.
  const std::int64_t count = static_cast<std::uint32_t>(header_word(file, 2));
  if (count == 0) throw data_error("{}: holds no tokens; leave it out", path);
  if (size != llmc_header_bytes + 2 * count) {
    throw data_error("{}: {}: the header tells of {} uint16 tokens (offset 8), which is {} bytes, the file has {}; copy it again",
                     path, size < llmc_header_bytes + 2 * count ? "truncated" : "too long", count, llmc_header_bytes + 2 * count,
                     size);
  }
  return std::unique_ptr<RawTokens>(new RawTokens(std::move(file), llmc_header_bytes, 2, count, model_vocabulary));
}

std::unique_ptr<RawTokens> RawTokens::open_headerless(MappedFile file, const std::string& dtype, std::int64_t model_vocabulary) {
  const std::string& path = file.path();
  const auto size = static_cast<std::int64_t>(file.size());
  if (dtype != "uint16" && dtype != "uint32") throw config_error("data.dtype: '{}' is neither uint16 nor uint32", dtype);
  const int width = dtype == "uint16" ? 2 : 4;
  constexpr std::string_view numpy_magic = "\x93NUMPY";
  if (file.size() >= numpy_magic.size() && std::memcmp(file.data(), numpy_magic.data(), numpy_magic.size()) == 0) {
    throw data_error("{}: a NumPy file with a header; write the ids alone with array.tofile(...)", path);
  }
  if (size % width != 0) {
    throw data_error("{}: truncated, or not {}: {} bytes are no multiple of {}; check data.dtype", path, dtype, size, width);
  }
  return std::unique_ptr<RawTokens>(new RawTokens(std::move(file), 0, width, size / width, model_vocabulary));
}

void RawTokens::read(std::int64_t begin, std::int64_t count, std::int32_t* out) const {
  check_range(begin, count, ids_.count, name());
  check_ids(ids_, limit_, begin, count, name(), data_offset_);
  ids_.widen(begin, count, out);
}

}  // namespace longwave
