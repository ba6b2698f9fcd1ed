// How a product on AMX tiles is shared between threads and cut for the caches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/backend/cpu/amx_kernels.h"
#include "core/base/divide.h"

namespace longwave {

// A packed panel of the right operand stays in the second cache (2 MiB on every processor with AMX) while rows stream by.
inline constexpr std::int64_t amx_right_panel_elements = 512 * 1024;

// `count` in whole blocks, at least one.
inline std::int64_t whole_amx_blocks(std::int64_t count) {
  return std::max<std::int64_t>(1, count / amx_block) * amx_block;
}

struct AmxRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};

// Part `index` of `parts` of [0, count), in whole blocks.
AmxRange amx_part(std::int64_t count, std::int64_t parts, std::int64_t index);

// How threads share the output: row parts times column parts, one for each thread.
struct AmxGrid {
  std::int64_t rows = 1, columns = 1;
};

// The grid that takes least time, by the blocks of its largest part and the bytes its threads read and pack.
AmxGrid choose_amx_grid(std::int64_t threads, std::int64_t rows, std::int64_t columns, std::int64_t depth);

}  // namespace longwave
