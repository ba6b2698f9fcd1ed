// Packs bf16 matrices into the tiles that AMX multiplies: 16 rows of 16 words, a word being two neighbours along the summed
// axis. Tiles are 1 KiB, aligned to 64 bytes; what lies outside the matrix is zero. For the sources of this folder only.
#pragma once

#include "core/backend/cpu/simd/amx/tiles.inl.h"
#include "core/backend/cpu/simd/transpose.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

inline std::int64_t tiles(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

// The words (even[i], odd[i]) of 32 columns, in their order.
struct PairedRows {
  __m512i first, second;
};
inline PairedRows pair_rows(__m512i even, __m512i odd) {
  alignas(64) static constexpr std::uint16_t low_order[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                              8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  alignas(64) static constexpr std::uint16_t high_order[32] = {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
                                                               24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
  const __m512i low = _mm512_load_si512(low_order), high = _mm512_load_si512(high_order);
  return {_mm512_permutex2var_epi16(even, low, odd), _mm512_permutex2var_epi16(even, high, odd)};
}

inline __mmask32 mask_of(std::int64_t count) {
  return count >= 32 ? 0xffffffffu : count <= 0 ? 0u : (1u << count) - 1u;
}

// Two rows of `from` at k and k + 1 from column n on, as words; what lies outside is zero.
inline PairedRows load_pair(const Bf16Bits* from, std::int64_t row, std::int64_t k, std::int64_t depth, std::int64_t n,
                            __mmask32 mask) {
  const __m512i zero = _mm512_setzero_si512();
  const Bf16Bits* at = from + k * row + n;
  const __m512i even = k < depth ? _mm512_maskz_loadu_epi16(mask, at) : zero;
  const __m512i odd = k + 1 < depth ? _mm512_maskz_loadu_epi16(mask, at + row) : zero;
  return pair_rows(even, odd);
}

// Tiles lie in the order [block of 16 columns][32 of the depth].
inline void pack_right(const Bf16Bits* from, std::int64_t row, std::int64_t depth, std::int64_t columns, Bf16Bits* to) {
  const std::int64_t depth_tiles = tiles(depth, amx_tile_depth);
  for (std::int64_t n = 0; n < columns; n += 2 * amx_tile_rows) {
    const __mmask32 mask = mask_of(columns - n);
    Bf16Bits* first = to + n / amx_tile_rows * depth_tiles * tile_elements;
    Bf16Bits* second = first + depth_tiles * tile_elements;
    for (std::int64_t k = 0; k < depth_tiles * amx_tile_depth; k += 2) {
      const PairedRows words = load_pair(from, row, k, depth, n, mask);
      _mm512_store_si512(first + k * amx_tile_rows, words.first);
      _mm512_store_si512(second + k * amx_tile_rows, words.second);
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

// Tiles lie in the order [block of 16 rows][32 of the depth], as many of the latter as padded_depth has.
inline void pack_left_transposed(const Bf16Bits* from, std::int64_t row, std::int64_t depth, std::int64_t rows, Bf16Bits* to,
                                 std::int64_t padded_depth) {
  const std::int64_t depth_tiles = tiles(padded_depth, amx_tile_depth);
  for (std::int64_t m = 0; m < rows; m += 2 * amx_tile_rows) {
    const __mmask32 mask = mask_of(rows - m);
    for (std::int64_t tile = 0; tile < depth_tiles; ++tile) {
      Vec first[lanes], second[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        const PairedRows words = load_pair(from, row, tile * amx_tile_depth + 2 * i, depth, m, mask);
        first[i] = as_vec(words.first);
        second[i] = as_vec(words.second);
      }
      float* at = reinterpret_cast<float*>(to + (m / amx_tile_rows * depth_tiles + tile) * tile_elements);
      transpose_block(first);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) store(at + i * lanes, first[i]);
      at += depth_tiles * tile_elements / 2;
      transpose_block(second);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) store(at + i * lanes, second[i]);
    }
  }
}

}  // namespace
}  // namespace longwave::simd::LONGWAVE_ISA
