#include "parallel/checkpoint/checksum.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <vector>

#include "core/base/error.h"

namespace longwave {
namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;  // stays in cache between reading and hashing
constexpr std::size_t digits = 16;

}  // namespace

std::uint64_t checksum_of(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

std::uint64_t checksum_of(const File& file, std::uint64_t begin, std::uint64_t bytes) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
  LONGWAVE_CHECK(state != nullptr && XXH3_64bits_reset(state.get()) == XXH_OK);
  std::vector<char> piece(std::min<std::uint64_t>(bytes, piece_bytes));
  for (std::uint64_t done = 0; done < bytes; done += piece.size()) {
    const std::size_t count = std::min<std::uint64_t>(piece.size(), bytes - done);
    file.read_at(piece.data(), count, begin + done);
    XXH3_64bits_update(state.get(), piece.data(), count);
  }
  return XXH3_64bits_digest(state.get());
}

std::string checksum_text(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

std::optional<std::uint64_t> parse_checksum(std::string_view text) {
  std::uint64_t value = 0;
  if (text.size() != digits) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace longwave
