// XXH3-64, the checksum of everything in a checkpoint, as sixteen hexadecimal digits in text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/file.h"

namespace longwave {

std::uint64_t checksum_of(const void* data, std::size_t bytes);
// Of bytes [begin, begin + bytes) of a file, read piece by piece.
std::uint64_t checksum_of(const File& file, std::uint64_t begin, std::uint64_t bytes);

// Of bytes that come in pieces.
class RunningChecksum {
 public:
  RunningChecksum();
  ~RunningChecksum();
  void add(const void* data, std::size_t bytes);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string checksum_text(std::uint64_t checksum);
std::optional<std::uint64_t> parse_checksum(std::string_view text);

}  // namespace longwave
