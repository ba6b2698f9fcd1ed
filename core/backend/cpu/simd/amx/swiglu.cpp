#include "core/backend/cpu/simd/swiglu.inl.h"

#include "core/backend/cpu/amx_kernels.h"
#include "core/backend/cpu/simd/amx/product.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

// 32 bf16 of a row as two vectors.
struct Row {
  Vec low, high;
};

inline Row widen(__m512i halves) {
  typedef Bf16Bits WholeVec __attribute__((vector_size(64)));
  const auto all = reinterpret_cast<WholeVec>(halves);
  const HalfVec low = __builtin_shufflevector(all, all, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const HalfVec high = __builtin_shufflevector(all, all, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
  return {from_bf16(low), from_bf16(high)};
}

inline __m512i activate(__m512i gate, __m512i up) {
  const Row g = widen(gate), u = widen(up);
  return round_pair(swiglu_of(g.low, u.low), swiglu_of(g.high, u.high));
}

template <bool stream> inline void put(Bf16Bits* to, __m512i halves) {
  if constexpr (stream) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), halves);
  } else {
    _mm512_storeu_si512(to, halves);
  }
}

constexpr std::int64_t block_sums = amx_block * amx_block;

// `columns` of gate, of up and of hidden, up to 64: pairs of lines go past the caches at twice the rate of single ones.
template <bool stream>
void write_rows(const float* gates, const float* ups, const AmxSwiGluProduct& s, std::int64_t m, std::int64_t n, std::int64_t rows,
                std::int64_t columns) {
  const std::int64_t blocks = columns / amx_block;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t at = (m + i) * s.row + n;
    Bf16Bits* const hidden = static_cast<Bf16Bits*>(s.product.out) + (m + i) * s.product.out_row + n;
    __m512i gate[2], up[2];
    for (std::int64_t b = 0; b < blocks; ++b) {
      gate[b] = rounded_row(gates + b * block_sums, i);
      up[b] = rounded_row(ups + b * block_sums, i);
    }
    for (std::int64_t b = 0; b < blocks; ++b) put<stream>(s.gate + at + b * amx_block, gate[b]);
    for (std::int64_t b = 0; b < blocks; ++b) put<stream>(s.up + at + b * amx_block, up[b]);
    for (std::int64_t b = 0; b < blocks; ++b) put<stream>(hidden + b * amx_block, activate(gate[b], up[b]));
  }
}

void forward(const AmxSwiGluProduct& s) {
  alignas(64) float gates[2 * block_sums], ups[2 * block_sums];
  const AmxProduct& p = s.product;
  const std::int64_t depth_tiles = tiles(p.depth, amx_tile_depth);
  const std::int64_t block_elements = amx_block * depth_tiles * amx_tile_depth;
  const auto write = p.stream ? write_rows<true> : write_rows<false>;
  for (std::int64_t m = 0; m < p.rows; m += amx_block) {
    const LeftTiles left = left_tiles(p, m);
    Ahead ahead(rows_after(p, m), p.columns / amx_block);
    const std::int64_t rows = p.rows - m < amx_block ? p.rows - m : amx_block;
    const Bf16Bits* right = p.right;
    for (std::int64_t n = 0; n < p.columns; n += 2 * amx_block) {
      const std::int64_t columns = p.columns - n < 2 * amx_block ? p.columns - n : 2 * amx_block;
      for (std::int64_t b = 0; b < columns / amx_block; ++b) {
        ahead.fetch();
        multiply_block(left, right, depth_tiles, 0, depth_tiles, gates + b * block_sums);
        multiply_block(left, right + block_elements, depth_tiles, 0, depth_tiles, ups + b * block_sums);
        right += 2 * block_elements;
      }
      write(gates, ups, s, m, n, rows, columns);
    }
  }
  if (p.stream) _mm_sfence();  // what went past the caches is seen by other threads in no order of its own
}

void backward(const AmxSwiGluProduct& s) {
  alignas(64) float dhidden[block_sums];
  const AmxProduct& p = s.product;
  const std::int64_t depth_tiles = tiles(p.depth, amx_tile_depth);
  for (std::int64_t m = 0; m < p.rows; m += amx_block) {
    const LeftTiles left = left_tiles(p, m);
    Ahead ahead(rows_after(p, m), p.columns / amx_block);
    const std::int64_t rows = p.rows - m < amx_block ? p.rows - m : amx_block;
    for (std::int64_t n = 0; n < p.columns; n += amx_block) {
      ahead.fetch();
      for (std::int64_t i = 0; i < rows; ++i) {  // they arrive while the tiles multiply
        _mm_prefetch(s.gate + (m + i) * s.row + n, _MM_HINT_T0);
        _mm_prefetch(s.up + (m + i) * s.row + n, _MM_HINT_T0);
      }
      multiply_block(left, p.right + n * depth_tiles * amx_tile_depth, depth_tiles, 0, depth_tiles, dhidden);
      for (std::int64_t i = 0; i < rows; ++i) {
        Bf16Bits* const gate = s.gate + (m + i) * s.row + n;
        Bf16Bits* const up = s.up + (m + i) * s.row + n;
        const Row d = widen(rounded_row(dhidden, i)), g = widen(_mm512_loadu_si512(gate)), u = widen(_mm512_loadu_si512(up));
        const SwiGluGradients low = swiglu_gradients(d.low, g.low, u.low), high = swiglu_gradients(d.high, g.high, u.high);
        _mm512_storeu_si512(gate, round_pair(low.gate, high.gate));
        _mm512_storeu_si512(up, round_pair(low.up, high.up));
      }
    }
  }
}

}  // namespace

constinit const AmxSwiGluKernels amx_swiglu_kernels = {.forward = forward, .backward = backward};

}  // namespace longwave::simd::LONGWAVE_ISA
