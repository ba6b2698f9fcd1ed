// What products on tiles have in common: where 32 rows of the left operand are read, in place where that can be, and the block of
// 32 x 32 sums they give. For the sources of this folder only.
#pragma once

#include "core/backend/cpu/simd/amx/pack.inl.h"
#include "core/backend/cpu/simd/amx/tiles.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

inline constexpr std::int64_t widest_in_place = 4096;  // elements from row to row

inline LeftTiles copy_rows(const AmxProduct& p, std::int64_t m) {
  const std::int64_t width = tiles(p.depth, amx_tile_depth) * amx_tile_depth;
  for (std::int64_t i = 0; i < amx_block; ++i) {
    for (std::int64_t k = 0; k < width; k += amx_tile_depth) {
      const __mmask32 mask = m + i < p.rows ? mask_of(p.depth - k) : 0;
      _mm512_storeu_si512(p.row_scratch + i * width + k, _mm512_maskz_loadu_epi16(mask, p.left + (m + i) * p.left_row + k));
    }
  }
  finish_stores();
  return left_rows_in_place(p.row_scratch, width);
}

inline LeftTiles left_tiles(const AmxProduct& p, std::int64_t m) {
  if (p.left_row == 0) {
    const std::int64_t depth_tiles = tiles(p.depth, amx_tile_depth);
    return packed_left(p.left + m * depth_tiles * amx_tile_depth, depth_tiles);
  }
  // Rows far apart lie on a page each and are read faster one after the other than all a little further.
  if (p.depth % amx_tile_depth != 0 || m + amx_block > p.rows || p.left_row > widest_in_place) return copy_rows(p, m);
  return left_rows_in_place(p.left + m * p.left_row, p.left_row);
}

// Asks for memory a little at a time while blocks multiply, so that all of it is near when the last one is done: whoever waits
// for memory holds the tiles up.
class Ahead {
 public:
  Ahead(AmxMatrix matrix, std::int64_t blocks) : matrix_(matrix), lines_(tiles(matrix.columns, line)) {
    lines_a_block_ = tiles(matrix.rows * lines_, blocks);
  }
  void fetch() {
    for (std::int64_t i = 0; i < lines_a_block_ && row_ < matrix_.rows; ++i) {
      _mm_prefetch(matrix_.data + row_ * matrix_.row + line_ * line, _MM_HINT_T1);
      if (++line_ == lines_) {
        line_ = 0;
        ++row_;
      }
    }
  }

 private:
  static constexpr std::int64_t line = 32;  // elements
  AmxMatrix matrix_;
  std::int64_t lines_ = 0, lines_a_block_ = 0;
  std::int64_t row_ = 0, line_ = 0;
};

// The rows that the block after m reads in place.
inline AmxMatrix rows_after(const AmxProduct& p, std::int64_t m) {
  if (p.left_row == 0 || p.left_row > widest_in_place || m + amx_block >= p.rows) return {};
  const std::int64_t rows = p.rows - m - amx_block;
  return {p.left + (m + amx_block) * p.left_row, p.left_row, rows < amx_block ? rows : amx_block, p.depth};
}

// As much of the summed axis, in tiles, as 32 rows of the left operand hold in the first cache (40 KiB of its 48).
inline constexpr std::int64_t depth_in_cache = 20;

// sums [32, 32] (+)= the product of 32 rows on the left and the 32 columns packed at `right`, over [begin, end) of the summed
// axis, in tiles; begin > 0 adds.
inline void multiply_block(LeftTiles left, const Bf16Bits* right, std::int64_t depth_tiles, std::int64_t begin, std::int64_t end,
                           float* sums) {
  if (begin > 0) {
    load_block(sums, amx_block);
  } else {
    zero_block();
  }
  add_products<RightReads::pass>(left, packed_right(right, depth_tiles), begin, end);
  store_block(sums, amx_block);
}

// Two vectors as 32 bf16, in their order.
inline __m512i round_pair(Vec low, Vec high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(high), reinterpret_cast<__m512>(low)));
}

// Row i of a block of sums.
inline __m512i rounded_row(const float* sums, std::int64_t i) {
  const float* row = sums + i * amx_block;
  return round_pair(load(row), load(row + lanes));
}

}  // namespace
}  // namespace longwave::simd::LONGWAVE_ISA
