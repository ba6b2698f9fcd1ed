#include "core/backend/cpu/amx_kernels.h"
#include "core/backend/cpu/simd/amx/pack.inl.h"
#include "core/backend/cpu/simd/amx/tiles.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

constexpr std::int64_t widest_in_place = 4096;  // elements from row to row

LeftTiles copy_rows(const AmxProduct& p, std::int64_t m) {
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

LeftTiles left_tiles(const AmxProduct& p, std::int64_t m) {
  if (p.left_row == 0) {
    const std::int64_t depth_tiles = tiles(p.depth, amx_tile_depth);
    return packed_left(p.left + m * depth_tiles * amx_tile_depth, depth_tiles);
  }
  // Rows far apart lie on a page each and are read faster one after the other than all a little further.
  if (p.depth % amx_tile_depth != 0 || m + amx_block > p.rows || p.left_row > widest_in_place) return copy_rows(p, m);
  return left_rows_in_place(p.left + m * p.left_row, p.left_row);
}

// Past the caches where `stream` says so and a row is a whole line.
inline void store_rounded(const float* from, Bf16Bits* to, std::int64_t row, std::int64_t rows, std::int64_t columns,
                          bool stream) {
  const __mmask32 mask = mask_of(columns);
  const bool lines = stream && columns == amx_block && reinterpret_cast<std::uintptr_t>(to) % 64 == 0 && row % amx_block == 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* sums = from + i * amx_block;
    const __m512bh rounded = _mm512_cvtne2ps_pbh(_mm512_load_ps(sums + amx_tile_rows), _mm512_load_ps(sums));
    if (lines) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i * row), reinterpret_cast<__m512i>(rounded));
    } else {
      _mm512_mask_storeu_epi16(to + i * row, mask, reinterpret_cast<__m512i>(rounded));
    }
  }
}

inline void store_part(const float* from, float* to, std::int64_t row, std::int64_t rows, std::int64_t columns, bool accumulate) {
  for (std::int64_t i = 0; i < rows; ++i) {
    each_vector(columns, [&](std::int64_t n, auto count) {
      const Vec value = load(from + i * amx_block + n, count);
      store(to + i * row + n, accumulate ? load(to + i * row + n, count) + value : value, count);
    });
  }
}

void multiply(const AmxProduct& p) {
  alignas(64) float block[amx_block * amx_block];
  const std::int64_t depth_tiles = tiles(p.depth, amx_tile_depth);
  for (std::int64_t m = 0; m < p.rows; m += amx_block) {
    const LeftTiles left = left_tiles(p, m);
    const std::int64_t rows = p.rows - m < amx_block ? p.rows - m : amx_block;
    for (std::int64_t n = 0; n < p.columns; n += amx_block) {
      const std::int64_t columns = p.columns - n < amx_block ? p.columns - n : amx_block;
      const RightTiles right = packed_right(p.right + n * depth_tiles * amx_tile_depth, depth_tiles);
      if (p.out_bf16) {
        zero_block();
        add_products(left, right, 0, depth_tiles);
        store_block(block, amx_block);
        store_rounded(block, static_cast<Bf16Bits*>(p.out) + m * p.out_row + n, p.out_row, rows, columns, p.stream);
        continue;
      }
      float* out = static_cast<float*>(p.out) + m * p.out_row + n;
      const bool whole = rows == amx_block && columns == amx_block;
      if (whole && p.accumulate) {
        load_block(out, p.out_row);
      } else {
        zero_block();
      }
      add_products(left, right, 0, depth_tiles);
      if (whole) {
        store_block(out, p.out_row);
      } else {
        store_block(block, amx_block);
        store_part(block, out, p.out_row, rows, columns, p.accumulate);
      }
    }
  }
  if (p.stream) _mm_sfence();  // what went past the caches is seen by other threads in no order of its own
}

void pack_left(const Bf16Bits* from, std::int64_t row, std::int64_t depth, std::int64_t rows, Bf16Bits* to) {
  pack_left_transposed(from, row, depth, rows, to, depth);
}

void round(const float* from, Bf16Bits* to, std::int64_t count) {
  each_vector(count, [&](std::int64_t i, auto n) { store(to + i, load(from + i, n), n); });
}

}  // namespace

constinit const AmxKernels amx_kernels = {
    .configure = configure_tiles,
    .release = release_tiles,
    .pack_right = pack_right,
    .pack_right_transposed = pack_right_transposed,
    .pack_left_transposed = pack_left,
    .multiply = multiply,
    .round = round,
};

}  // namespace longwave::simd::LONGWAVE_ISA
