#include "core/backend/cpu/amx_kernels.h"
#include "core/backend/cpu/simd/amx/product.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

// Rows of one or two blocks, side by side, to bf16. Past the caches where `stream` says so: by pairs of lines, since single ones
// reach half the rate.
inline void store_rounded(const float* from, Bf16Bits* to, std::int64_t row, std::int64_t rows, std::int64_t columns,
                          bool stream) {
  const bool lines = stream && columns == 2 * amx_block && reinterpret_cast<std::uintptr_t>(to) % 64 == 0 && row % amx_block == 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t n = 0; n < columns; n += amx_block) {
      const __m512i rounded = rounded_row(from + n * amx_block, i);
      if (lines) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i * row + n), rounded);
      } else {
        _mm512_mask_storeu_epi16(to + i * row + n, mask_of(columns - n), rounded);
      }
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

void multiply_to_bf16(const AmxProduct& p) {
  const std::int64_t depth_tiles = tiles(p.depth, amx_tile_depth);
  for (std::int64_t m = 0; m < p.rows; m += amx_block) {
    const LeftTiles left = left_tiles(p, m);
    Ahead ahead(rows_after(p, m), tiles(p.columns, amx_block) * tiles(depth_tiles, depth_in_cache));
    const std::int64_t rows = p.rows - m < amx_block ? p.rows - m : amx_block;
    for (std::int64_t k = 0; k < depth_tiles; k += depth_in_cache) {
      const bool last = k + depth_in_cache >= depth_tiles;
      const std::int64_t end = last ? depth_tiles : k + depth_in_cache;
      for (std::int64_t n = 0; n < p.columns; n += 2 * amx_block) {
        const std::int64_t columns = p.columns - n < 2 * amx_block ? p.columns - n : 2 * amx_block;
        float* const sums = p.sums + (depth_tiles > depth_in_cache ? n * amx_block : 0);
        for (std::int64_t at = 0; at < columns; at += amx_block) {
          ahead.fetch();
          multiply_block(left, p.right + (n + at) * depth_tiles * amx_tile_depth, depth_tiles, k, end, sums + at * amx_block);
        }
        if (last) {
          store_rounded(sums, static_cast<Bf16Bits*>(p.out) + m * p.out_row + n, p.out_row, rows, columns, p.stream);
        }
      }
    }
  }
  if (p.stream) _mm_sfence();  // what went past the caches is seen by other threads in no order of its own
}

void multiply_to_f32(const AmxProduct& p) {
  const std::int64_t depth_tiles = tiles(p.depth, amx_tile_depth);
  Ahead ahead(p.next, tiles(p.rows, amx_block) * tiles(p.columns, amx_block) * tiles(depth_tiles, depth_in_cache));
  for (std::int64_t m = 0; m < p.rows; m += amx_block) {
    const LeftTiles left = left_tiles(p, m);
    const std::int64_t rows = p.rows - m < amx_block ? p.rows - m : amx_block;
    for (std::int64_t k = 0; k < depth_tiles; k += depth_in_cache) {
      const std::int64_t end = k + depth_in_cache < depth_tiles ? k + depth_in_cache : depth_tiles;
      const bool accumulate = p.accumulate || k > 0;
      for (std::int64_t n = 0; n < p.columns; n += amx_block) {
        const std::int64_t columns = p.columns - n < amx_block ? p.columns - n : amx_block;
        const RightTiles right = packed_right(p.right + n * depth_tiles * amx_tile_depth, depth_tiles);
        float* out = static_cast<float*>(p.out) + m * p.out_row + n;
        const bool whole = rows == amx_block && columns == amx_block;
        ahead.fetch();
        if (whole && accumulate) {
          load_block(out, p.out_row);
        } else {
          zero_block();
        }
        add_products<RightReads::pass>(left, right, k, end);
        if (whole) {
          store_block(out, p.out_row);
        } else {
          store_block(p.sums, amx_block);
          store_part(p.sums, out, p.out_row, rows, columns, accumulate);
        }
      }
    }
  }
}

void multiply(const AmxProduct& p) { p.out_bf16 ? multiply_to_bf16(p) : multiply_to_f32(p); }

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
