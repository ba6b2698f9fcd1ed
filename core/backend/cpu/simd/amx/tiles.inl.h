// The eight AMX tile registers, all of 16 rows of 64 bytes. For the sources of this folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#include "core/backend/cpu/amx_kernels.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

// Palette 1: 64 bytes that the processor reads (Intel's Software Developer's Manual, volume 1, 18.3).
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t bytes_a_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

inline void configure_tiles() {
  static constexpr TileConfiguration configuration{};
  _tile_loadconfig(&configuration);
}

// GCC 12 takes a tile load for an instruction that reads no memory, so what it reads has to be written before, by this.
inline void finish_stores() { __asm__ volatile("" ::: "memory"); }

// Tiles in use make every switch of threads dearer.
inline void release_tiles() { _tile_release(); }

inline constexpr std::int64_t tile_elements = amx_tile_rows * amx_tile_depth;  // of bf16

// Where the tiles of 32 rows of a left operand are, in elements of bf16.
struct LeftTiles {
  const Bf16Bits* data = nullptr;
  std::int64_t row = 0;
  std::int64_t block = 0;  // to the other 16 rows
  std::int64_t step = 0;   // to the next 32 of the summed axis
};
inline LeftTiles left_rows_in_place(const Bf16Bits* data, std::int64_t row) {
  return {data, row, amx_tile_rows * row, amx_tile_depth};
}
inline LeftTiles packed_left(const Bf16Bits* data, std::int64_t depth_tiles) {
  return {data, amx_tile_depth, depth_tiles * tile_elements, tile_elements};
}

// The same of 32 columns of a right operand, whose rows are of words: two neighbours along the summed axis.
struct RightTiles {
  const Bf16Bits* data = nullptr;
  std::int64_t row = 0;
  std::int64_t block = 0;  // to the other 16 columns
  std::int64_t step = 0;
};
inline RightTiles packed_right(const Bf16Bits* data, std::int64_t depth_tiles) {
  return {data, amx_tile_depth, depth_tiles * tile_elements, tile_elements};
}
// [words along the summed axis][columns], `row` columns from row to row.
inline RightTiles words_in_place(const std::uint32_t* data, std::int64_t row) {
  return {reinterpret_cast<const Bf16Bits*>(data), 2 * row, amx_tile_depth, 2 * amx_tile_rows * row};
}

// How a right operand is read: it passes when it is longer than the first cache and each block reads all of it, so that it does
// not drive the rows on the left out of there.
enum class RightReads { stay, pass };

template <RightReads how>
inline __attribute__((always_inline)) void load_right(const Bf16Bits* first, const Bf16Bits* second, std::size_t row) {
  if constexpr (how == RightReads::pass) {
    _tile_stream_loadd(6, first, row);
    _tile_stream_loadd(7, second, row);
  } else {
    _tile_loadd(6, first, row);
    _tile_loadd(7, second, row);
  }
}

// Tiles 0 to 3 += the product over [begin, end) of the summed axis, in tiles.
template <RightReads how = RightReads::stay>
inline __attribute__((always_inline)) void add_products(LeftTiles left, RightTiles right, std::int64_t begin, std::int64_t end) {
  const std::size_t left_row = static_cast<std::size_t>(left.row) * sizeof(Bf16Bits);
  const std::size_t right_row = static_cast<std::size_t>(right.row) * sizeof(Bf16Bits);
  for (std::int64_t k = begin; k < end; ++k) {
    const Bf16Bits* a = left.data + k * left.step;
    const Bf16Bits* b = right.data + k * right.step;
    _tile_loadd(4, a, left_row);
    load_right<how>(b, b + right.block, right_row);
    _tile_loadd(5, a + left.block, left_row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
}

// A block of 32 x 32 fp32, tiles 0 and 1 above 2 and 3; `row` elements from row to row of its memory.
inline __attribute__((always_inline)) void load_block(const float* from, std::int64_t row) {
  const auto bytes = static_cast<std::size_t>(row) * sizeof(float);
  _tile_loadd(0, from, bytes);
  _tile_loadd(1, from + amx_tile_rows, bytes);
  _tile_loadd(2, from + amx_tile_rows * row, bytes);
  _tile_loadd(3, from + amx_tile_rows * row + amx_tile_rows, bytes);
}

inline __attribute__((always_inline)) void store_block(float* to, std::int64_t row) {
  const auto bytes = static_cast<std::size_t>(row) * sizeof(float);
  _tile_stored(0, to, bytes);
  _tile_stored(1, to + amx_tile_rows, bytes);
  _tile_stored(2, to + amx_tile_rows * row, bytes);
  _tile_stored(3, to + amx_tile_rows * row + amx_tile_rows, bytes);
}

inline __attribute__((always_inline)) void zero_block() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

}  // namespace
}  // namespace longwave::simd::LONGWAVE_ISA
