#include "core/backend/cpu/amx_products.h"

#include <omp.h>

#include <algorithm>

#include "core/backend/cpu/amx_grid.h"
#include "core/backend/cpu/amx_kernels.h"
#include "core/backend/cpu/parallel.h"

namespace longwave {
namespace {

constexpr std::int64_t left_panel_elements = 128 * 1024;  // packed, beside the right one and what is packed next
constexpr std::int64_t summed_rows = 512;                // whose sums of pieces are kept at once
constexpr std::int64_t shortest_piece = 1024;            // of the summed axis, where it is too long to be summed in one go,
constexpr std::int64_t packed_piece = 1024;              // and where the left operand is packed too
constexpr std::int64_t fewest_rows = 32;

struct Operand {
  const Bf16Bits* data = nullptr;
  std::int64_t row = 0;     // elements from row to row of its memory
  bool transposed = false;  // its memory has the summed axis along columns on the right, along rows on the left
};

}  // namespace

// out[rows, columns] (+)= left[rows, depth] right[depth, columns]
struct AmxProducts::Product {
  std::int64_t rows = 0, columns = 0, depth = 0;
  Operand left, right;
  Tensor out;
  bool accumulate = false;

  // What is summed in one go: as deep as a panel of all columns can be, for each further panel reads, or packs, the left operand
  // again; where that is packed, no deeper than its chunks are worth.
  std::int64_t piece() const {
    const std::int64_t deepest = amx_right_panel_elements / round_up(columns, amx_block) / amx_tile_depth * amx_tile_depth;
    if (left.transposed) return std::min(depth, std::clamp(deepest, packed_piece / 2, packed_piece));
    return std::min(depth, std::max(shortest_piece, deepest));
  }
  std::int64_t padded_piece() const { return round_up(piece(), amx_tile_depth); }
  // What is packed of a transposed left operand after `chunk` of `own` rows at depth k to k + count: the next rows, or the first
  // ones further down.
  AmxMatrix left_after(AmxRange chunk, AmxRange own, std::int64_t k, std::int64_t count) const {
    const bool more_rows = chunk.end < own.end;
    const std::int64_t row = more_rows ? chunk.end : own.begin;
    const std::int64_t from = more_rows ? k : k + count;
    return {left.data + from * left.row + row, left.row, std::min(piece(), depth - from), std::min(chunk.count(), own.end - row)};
  }
  bool summed_in_pieces() const { return depth > piece() && out.dtype == DType::bf16; }
};

namespace {

// One thread's working memory, in elements of bf16.
struct ThreadMemory {
  std::int64_t right = 0, left = 0, row = 0, block_sums = 0, sums = 0;
  std::int64_t elements() const { return right + left + row + block_sums + sums; }
};

}  // namespace

void AmxProducts::run(const Product& p) {
  if (p.rows == 0 || p.columns == 0 || p.depth == 0) return;
  const AmxKernels& kernels = simd::amx_bf16::amx_kernels;
  const std::int64_t piece = p.piece();
  const std::int64_t panel_columns =
      std::min(round_up(p.columns, amx_block), whole_amx_blocks(amx_right_panel_elements / p.padded_piece()));
  // Rows are taken in chunks where something of theirs has to be kept: packed, or in sums of pieces.
  const std::int64_t chunk_rows = p.left.transposed     ? whole_amx_blocks(left_panel_elements / p.padded_piece())
                                  : p.summed_in_pieces() ? summed_rows
                                                         : round_up(p.rows, amx_block);
  const AmxGrid grid = choose_amx_grid(omp_get_max_threads(), p.rows, p.columns, p.depth);
  const ThreadMemory memory = {.right = panel_columns * p.padded_piece(),
                               .left = p.left.transposed ? chunk_rows * p.padded_piece() : 0,
                               .row = amx_block * p.padded_piece(),
                               .block_sums = 2 * amx_block * panel_columns,
                               .sums = p.summed_in_pieces() ? 2 * chunk_rows * panel_columns : 0};
  const std::int64_t threads = grid.rows * grid.columns;
  Bf16Bits* const scratch = scratch_.get<Bf16Bits>(threads * memory.elements());
  const auto out_size = static_cast<std::int64_t>(size_of(p.out.dtype));

#pragma omp parallel for schedule(static, 1)
  for (std::int64_t thread = 0; thread < threads; ++thread) {
    const AmxRange rows = amx_part(p.rows, grid.rows, thread / grid.columns);
    const AmxRange columns = amx_part(p.columns, grid.columns, thread % grid.columns);
    Bf16Bits* const right = scratch + thread * memory.elements();
    Bf16Bits* const left = right + memory.right;
    Bf16Bits* const row_scratch = left + memory.left;
    float* const block_sums = reinterpret_cast<float*>(row_scratch + memory.row);
    float* const sums = block_sums + memory.block_sums / 2;
    kernels.configure();
    const auto pack_right = [&](std::int64_t n, std::int64_t count, std::int64_t k, std::int64_t depth) {
      if (p.right.transposed) {
        kernels.pack_right_transposed(p.right.data + n * p.right.row + k, p.right.row, depth, count, right);
      } else {
        kernels.pack_right(p.right.data + k * p.right.row + n, p.right.row, depth, count, right);
      }
    };
    const auto multiply = [&](AmxRange chunk, std::int64_t n, std::int64_t count, std::int64_t k, std::int64_t depth) {
      AmxProduct part;
      part.left = p.left.data + chunk.begin * p.left.row + k;
      part.left_row = p.left.row;
      if (p.left.transposed) {
        kernels.pack_left_transposed(p.left.data + k * p.left.row + chunk.begin, p.left.row, depth, chunk.count(), left);
        part.left = left;
        part.left_row = 0;
        part.next = p.left_after(chunk, rows, k, depth);
      }
      part.right = right;
      part.rows = chunk.count();
      part.columns = count;
      part.depth = depth;
      part.row_scratch = row_scratch;
      part.sums = block_sums;
      part.accumulate = p.accumulate || k > 0;
      if (p.summed_in_pieces()) {
        part.out = sums;
        part.out_row = panel_columns;
      } else {
        part.out = static_cast<char*>(p.out.data) + (chunk.begin * p.columns + n) * out_size;
        part.out_row = p.columns;
        part.out_bf16 = p.out.dtype == DType::bf16;
        part.stream = p.out.bytes() > cached_output_bytes;
      }
      kernels.multiply(part);
    };
    const auto each_chunk = [&](const auto& body) {
      for (std::int64_t m = rows.begin; m < rows.end; m += chunk_rows) body(AmxRange{m, std::min(rows.end, m + chunk_rows)});
    };
    for (std::int64_t n = columns.begin; n < columns.end; n += panel_columns) {
      const std::int64_t count = std::min(panel_columns, columns.end - n);
      const auto each_piece = [&](const auto& body) {
        for (std::int64_t k = 0; k < p.depth; k += piece) {
          const std::int64_t depth = std::min(piece, p.depth - k);
          pack_right(n, count, k, depth);
          body(k, depth);
        }
      };
      if (p.summed_in_pieces()) {
        each_chunk([&](AmxRange chunk) {
          each_piece([&](std::int64_t k, std::int64_t depth) { multiply(chunk, n, count, k, depth); });
          for (std::int64_t m = 0; m < chunk.count(); ++m) {
            Bf16Bits* const to = static_cast<Bf16Bits*>(p.out.data) + (chunk.begin + m) * p.columns + n;
            kernels.round(sums + m * panel_columns, to, count);
          }
        });
      } else {
        each_piece([&](std::int64_t k, std::int64_t depth) {
          each_chunk([&](AmxRange chunk) { multiply(chunk, n, count, k, depth); });
        });
      }
    }
    kernels.release();
  }
}

bool AmxProducts::takes(const Tensor& left, std::int64_t rows) {
  return left.dtype == DType::bf16 && active_isa() == Isa::amx_bf16 && rows >= fewest_rows;
}

void AmxProducts::forward(Tensor x, Tensor weight, Tensor y) {
  run({.rows = y.shape[0], .columns = y.shape[1], .depth = x.shape[1],
       .left = {static_cast<const Bf16Bits*>(x.data), x.shape[1], false},
       .right = {static_cast<const Bf16Bits*>(weight.data), weight.shape[1], true}, .out = y});
}

void AmxProducts::backward_input(Tensor dy, Tensor weight, Tensor dx) {
  run({.rows = dx.shape[0], .columns = dx.shape[1], .depth = dy.shape[1],
       .left = {static_cast<const Bf16Bits*>(dy.data), dy.shape[1], false},
       .right = {static_cast<const Bf16Bits*>(weight.data), weight.shape[1], false}, .out = dx});
}

void AmxProducts::backward_weight(Tensor dy, Tensor x, Tensor dweight) {
  run({.rows = dweight.shape[0], .columns = dweight.shape[1], .depth = dy.shape[0],
       .left = {static_cast<const Bf16Bits*>(dy.data), dy.shape[1], true},
       .right = {static_cast<const Bf16Bits*>(x.data), x.shape[1], false}, .out = dweight, .accumulate = true});
}

}  // namespace longwave
