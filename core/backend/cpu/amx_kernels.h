// Matrix products on AMX tiles: the arithmetic for one thread's part of a product; amx_products.cpp spreads parts over threads.
//
// Operands are bf16, sums fp32. The right operand and a transposed left one are packed first, into tiles of 1 KiB that a tile
// load reads in one sweep: 16 rows of 16 words, a word being two bf16 that are neighbours along the summed axis.
#pragma once

#include "core/backend/cpu/isa.h"

namespace longwave {

inline constexpr std::int64_t amx_tile_rows = 16;   // of the output, and columns
inline constexpr std::int64_t amx_tile_depth = 32;  // of the summed axis
inline constexpr std::int64_t amx_block = 32;       // rows and columns of the output that stay in registers

// Memory of a matrix: `row` elements from row to row.
struct AmxMatrix {
  const Bf16Bits* data = nullptr;
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// out[rows, columns] (+)= left[rows, depth] right[depth, columns]
struct AmxProduct {
  // Row-major with `left_row` elements from row to row, or packed by pack_left when left_row is 0.
  const Bf16Bits* left = nullptr;
  std::int64_t left_row = 0;
  const Bf16Bits* right = nullptr;  // packed
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  void* out = nullptr;  // fp32, or bf16 where out_bf16; out_row elements from row to row
  std::int64_t out_row = 0;
  bool out_bf16 = false;
  bool stream = false;  // bf16 output goes to memory past the caches
  bool accumulate = false;         // fp32 only
  Bf16Bits* row_scratch = nullptr;  // amx_block x depth, rounded up to whole tiles
  float* sums = nullptr;            // scratch, amx_block x columns rounded up to whole blocks
  AmxMatrix next;                   // what is packed after this, fetched meanwhile; fp32 output only
};

// A product of an MLP with SwiGLU on what has just been computed. `columns` is a multiple of amx_block and counts those of
// hidden = silu(gate) up; the memory of gate and up has `row` elements from row to row.
struct AmxSwiGluProduct {
  AmxProduct product;
  Bf16Bits* gate = nullptr;
  Bf16Bits* up = nullptr;
  std::int64_t row = 0;
};

struct AmxKernels {
  // Around all else, on the thread that computes.
  void (*configure)();
  void (*release)();
  // Packed right operands, for rows and columns rounded up to whole tiles and blocks with zeros.
  // element (k, n) is from[k * row + n]
  void (*pack_right)(const Bf16Bits* from, std::int64_t row, std::int64_t depth, std::int64_t columns, Bf16Bits* to);
  // element (k, n) is from[n * row + k]
  void (*pack_right_transposed)(const Bf16Bits* from, std::int64_t row, std::int64_t depth, std::int64_t columns, Bf16Bits* to);
  // A packed left operand whose element (m, k) is from[k * row + m]
  void (*pack_left_transposed)(const Bf16Bits* from, std::int64_t row, std::int64_t depth, std::int64_t rows, Bf16Bits* to);
  void (*multiply)(const AmxProduct& product);
  // to[i] = from[i], rounded
  void (*round)(const float* from, Bf16Bits* to, std::int64_t count);
};

struct AmxSwiGluKernels {
  // gate and up = left right, out = their hidden, all three rounded to bf16; right is packed in blocks of amx_block columns, one
  // of gate and one of up by turns.
  void (*forward)(const AmxSwiGluProduct& product);
  // dhidden = left right, rounded to bf16 and not kept: gate and up become their gradients in place. `out` is not used.
  void (*backward)(const AmxSwiGluProduct& product);
};

namespace simd::amx_bf16 { extern const AmxKernels amx_kernels; }
namespace simd::amx_bf16 { extern const AmxSwiGluKernels amx_swiglu_kernels; }

}  // namespace longwave
