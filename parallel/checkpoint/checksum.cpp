#include "parallel/checkpoint/checksum.h"

// Declares the state itself, so that it can lie in an object of ours.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "core/base/error.h"

namespace longwave {
namespace {

constexpr std::size_t piece_bytes = std::size_t{256} << 10;  // stays in cache between reading and hashing
constexpr std::size_t digits = 16;

}  // namespace

struct RunningChecksum::State {
  XXH3_state_t xxh3;
};

RunningChecksum::RunningChecksum() : state_(new State) { XXH3_64bits_reset(&state_->xxh3); }
RunningChecksum::~RunningChecksum() = default;
void RunningChecksum::add(const void* data, std::size_t bytes) { XXH3_64bits_update(&state_->xxh3, data, bytes); }
std::uint64_t RunningChecksum::value() const { return XXH3_64bits_digest(&state_->xxh3); }

std::uint64_t checksum_of(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

std::uint64_t checksum_of(const File& file, std::uint64_t begin, std::uint64_t bytes) {
  RunningChecksum checksum;
  std::vector<char> piece(std::min<std::uint64_t>(bytes, piece_bytes));
  for (std::uint64_t done = 0; done < bytes; done += piece.size()) {
    const std::size_t count = std::min<std::uint64_t>(piece.size(), bytes - done);
    file.read_at(piece.data(), count, begin + done);
    checksum.add(piece.data(), count);
  }
  return checksum.value();
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
