// XXH3-64, the checksum of everything in a checkpoint, as sixteen hexadecimal digits in text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/file.h"

namespace longwave {

std::uint64_t checksum_of(const void* data, std::size_t bytes);
// Of bytes [begin, begin + bytes) of a file, read piece by piece.
std::uint64_t checksum_of(const File& file, std::uint64_t begin, std::uint64_t bytes);

std::string checksum_text(std::uint64_t checksum);
std::optional<std::uint64_t> parse_checksum(std::string_view text);

}  // namespace longwave
