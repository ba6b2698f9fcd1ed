#include "core/backend/cpu/amx_swiglu.h"

#include <omp.h>

#include "core/backend/cpu/amx_grid.h"
#include "core/backend/cpu/amx_kernels.h"
#include "core/backend/cpu/amx_products.h"
#include "core/backend/cpu/parallel.h"

namespace longwave {
namespace {

constexpr std::int64_t deepest = 4096;  // a panel still holds blocks of gate and up

Bf16Bits* bits(const Tensor& tensor) { return static_cast<Bf16Bits*>(tensor.data); }

}  // namespace

struct AmxSwiGlu::Product {
  Tensor left, weight, gate_up;
  Tensor hidden;  // none in the backward

  std::int64_t depth() const { return left.shape[1]; }
  std::int64_t columns() const { return gate_up.shape[1] / 2; }
  std::int64_t operands() const { return hidden ? 2 : 1; }  // on the right: gate and up, or what dhidden is made with

  // Columns n to n + count of hidden.
  void pack(const AmxKernels& kernels, std::int64_t n, std::int64_t count, Bf16Bits* to) const {
    if (!hidden) return kernels.pack_right(bits(weight) + n, columns(), depth(), count, to);
    const std::int64_t block = amx_block * round_up(depth(), amx_tile_depth);
    for (std::int64_t end = n + count; n < end; n += amx_block) {
      for (const std::int64_t row : {n, columns() + n}) {
        kernels.pack_right_transposed(bits(weight) + row * depth(), depth(), depth(), amx_block, to);
        to += block;
      }
    }
  }
};

void AmxSwiGlu::run(const Product& p) {
  const AmxKernels& kernels = simd::amx_bf16::amx_kernels;
  const AmxSwiGluKernels& swiglu = simd::amx_bf16::amx_swiglu_kernels;
  const std::int64_t rows = p.gate_up.shape[0], depth = round_up(p.depth(), amx_tile_depth);
  if (rows == 0) return;
  const std::int64_t panel_columns = std::min(p.columns(), whole_amx_blocks(amx_right_panel_elements / (depth * p.operands())));
  const AmxGrid grid = choose_amx_grid(omp_get_max_threads(), rows, p.columns() * p.operands(), depth);
  const std::int64_t threads = grid.rows * grid.columns;
  const std::int64_t right_elements = panel_columns * p.operands() * depth;
  const std::int64_t thread_elements = right_elements + amx_block * depth;
  Bf16Bits* const scratch = scratch_.get<Bf16Bits>(threads * thread_elements);

#pragma omp parallel for schedule(static, 1)
  for (std::int64_t thread = 0; thread < threads; ++thread) {
    const AmxRange own_rows = amx_part(rows, grid.rows, thread / grid.columns);
    const AmxRange own_columns = amx_part(p.columns(), grid.columns, thread % grid.columns);
    Bf16Bits* const right = scratch + thread * thread_elements;
    kernels.configure();
    for (std::int64_t n = own_columns.begin; n < own_columns.end; n += panel_columns) {
      const std::int64_t count = std::min(panel_columns, own_columns.end - n);
      p.pack(kernels, n, count, right);
      AmxSwiGluProduct part;
      part.product.left = bits(p.left) + own_rows.begin * p.depth();
      part.product.left_row = p.depth();
      part.product.right = right;
      part.product.rows = own_rows.count();
      part.product.columns = count;
      part.product.depth = p.depth();
      part.product.row_scratch = right + right_elements;
      part.row = 2 * p.columns();
      part.gate = bits(p.gate_up) + own_rows.begin * part.row + n;
      part.up = part.gate + p.columns();
      if (p.hidden) {
        part.product.out = bits(p.hidden) + own_rows.begin * p.columns() + n;
        part.product.out_row = p.columns();
        part.product.stream = p.gate_up.bytes() > cached_output_bytes && on_lines(p.gate_up) && on_lines(p.hidden);
        swiglu.forward(part);
      } else {
        swiglu.backward(part);
      }
    }
    kernels.release();
  }
}

bool AmxSwiGlu::takes(const Tensor& left, std::int64_t rows, std::int64_t hidden) {
  return AmxProducts::takes(left, rows) && hidden % amx_block == 0 && left.shape[1] <= deepest;
}

void AmxSwiGlu::forward(Tensor x, Tensor weight, Tensor gate_up, Tensor hidden) {
  const std::int64_t rows = hidden.shape[0], columns = hidden.shape[1];
  LONGWAVE_CHECK(weight.dtype == DType::bf16 && gate_up.dtype == DType::bf16 && hidden.dtype == DType::bf16);
  LONGWAVE_CHECK(x.shape[0] == rows && gate_up.shape == (Shape{rows, 2 * columns}));
  LONGWAVE_CHECK(weight.shape == (Shape{2 * columns, x.shape[1]}));
  run({.left = x, .weight = weight, .gate_up = gate_up, .hidden = hidden});
}

void AmxSwiGlu::backward(Tensor dy, Tensor weight, Tensor gate_up) {
  const std::int64_t rows = gate_up.shape[0], columns = gate_up.shape[1] / 2;
  LONGWAVE_CHECK(weight.dtype == DType::bf16 && gate_up.dtype == DType::bf16);
  LONGWAVE_CHECK(dy.shape[0] == rows && weight.shape == (Shape{dy.shape[1], columns}));
  run({.left = dy, .weight = weight, .gate_up = gate_up, .hidden = {}});
}

}  // namespace longwave
