// Packs bf16 matrices into the tiles that AMX multiplies: 16 rows of 16 words, a word being two neighbours along the summed
// axis. Tiles are 1 KiB, aligned to 64 bytes; what lies outside the matrix is zero. For the sources of this folder only.
#pragma once

#include "core/backend/cpu/simd/amx/tiles.inl.h"
#include "core/backend/cpu/simd/transpose.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

inline std::int64_t tiles(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

inline __mmask32 mask_of(std::int64_t count) {
  return count >= 32 ? 0xffffffffu : count <= 0 ? 0u : (1u << count) - 1u;
}

// Two rows of `from` at k and k + 1 from column n on; what lies outside is zero.
struct RowPair {
  __m512i even, odd;
};
inline RowPair load_pair(const Bf16Bits* from, std::int64_t row, std::int64_t k, std::int64_t depth, std::int64_t n,
                         __mmask32 mask) {
  const __m512i zero = _mm512_setzero_si512();
  const Bf16Bits* at = from + k * row + n;
  return {k < depth ? _mm512_maskz_loadu_epi16(mask, at) : zero, k + 1 < depth ? _mm512_maskz_loadu_epi16(mask, at + row) : zero};
}

// The words (even[i], odd[i]) of 32 columns, in their order.
struct PairedRows {
  __m512i first, second;
};
inline PairedRows pair_rows(RowPair rows) {
  alignas(64) static constexpr std::uint16_t low_order[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                              8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  alignas(64) static constexpr std::uint16_t high_order[32] = {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
                                                               24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
  const __m512i low = _mm512_load_si512(low_order), high = _mm512_load_si512(high_order);
  return {_mm512_permutex2var_epi16(rows.even, low, rows.odd), _mm512_permutex2var_epi16(rows.even, high, rows.odd)};
}

// Both walk along the rows of the matrix, which is how memory is read fastest, and scatter tiles.
//
// Tiles lie in the order [block of 16 columns][32 of the depth].
inline void pack_right(const Bf16Bits* from, std::int64_t row, std::int64_t depth, std::int64_t columns, Bf16Bits* to) {
  const std::int64_t depth_tiles = tiles(depth, amx_tile_depth);
  for (std::int64_t k = 0; k < depth_tiles * amx_tile_depth; k += 2) {
    for (std::int64_t n = 0; n < columns; n += 2 * amx_tile_rows) {
      Bf16Bits* first = to + n / amx_tile_rows * depth_tiles * tile_elements + k * amx_tile_rows;
      const PairedRows words = pair_rows(load_pair(from, row, k, depth, n, mask_of(columns - n)));
      _mm512_store_si512(first, words.first);
      _mm512_store_si512(first + depth_tiles * tile_elements, words.second);
    }
  }
}

inline Vec as_vec(__m512i words) { return reinterpret_cast<Vec>(words); }

inline void pack_right_transposed(const Bf16Bits* from, std::int64_t row, std::int64_t depth, std::int64_t columns,
                                  Bf16Bits* to) {
  for (std::int64_t n = 0; n < tiles(columns, amx_block) * amx_block; n += amx_tile_rows) {
    for (std::int64_t k = 0; k < depth; k += amx_tile_depth) {
      const __mmask32 mask = mask_of(depth - k);
      Vec words[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        words[i] = n + i < columns ? as_vec(_mm512_maskz_loadu_epi16(mask, from + (n + i) * row + k)) : Vec{};
      }
      transpose_block(words);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) store(reinterpret_cast<float*>(to) + i * lanes, words[i]);
      to += tile_elements;
    }
  }
}

// The words of 32 columns as one instruction interleaves them: the first four and the last four of every eight.
struct InterleavedRows {
  Vec first, last;
};
inline InterleavedRows interleave(RowPair rows) {
  return {as_vec(_mm512_maskz_unpacklo_epi16(0xffffffffu, rows.even, rows.odd)),
          as_vec(_mm512_maskz_unpackhi_epi16(0xffffffffu, rows.even, rows.odd))};
}

// Tiles lie in the order [block of 16 rows][32 of the depth], as many of the latter as padded_depth has.
inline void pack_left_transposed(const Bf16Bits* from, std::int64_t row, std::int64_t depth, std::int64_t rows, Bf16Bits* to,
                                 std::int64_t padded_depth) {
  const std::int64_t depth_tiles = tiles(padded_depth, amx_tile_depth);
  for (std::int64_t tile = 0; tile < depth_tiles; ++tile) {
    for (std::int64_t m = 0; m < rows; m += 2 * amx_tile_rows) {
      const __mmask32 mask = mask_of(rows - m);
      Vec first[lanes], last[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        const InterleavedRows words = interleave(load_pair(from, row, tile * amx_tile_depth + 2 * i, depth, m, mask));
        first[i] = words.first;
        last[i] = words.last;
      }
      float* const upper = reinterpret_cast<float*>(to + (m / amx_tile_rows * depth_tiles + tile) * tile_elements);
      float* const lower = upper + depth_tiles * tile_elements / 2;
      // Column of the 32 to row of the two tiles; vector i holds column 8 (i / 4) + i % 4, or the one four further.
      const auto row_of = [&](int column) { return (column < 16 ? upper : lower) + column % 16 * lanes; };
      transpose_block(first);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) store(row_of(i / 4 * 8 + i % 4), first[i]);
      transpose_block(last);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) store(row_of(i / 4 * 8 + i % 4 + 4), last[i]);
    }
  }
}

}  // namespace
}  // namespace longwave::simd::LONGWAVE_ISA
