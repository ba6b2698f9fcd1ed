#include "core/backend/cpu/amx_products.h"

#include <omp.h>

#include <algorithm>

#include "core/backend/cpu/amx_kernels.h"

namespace longwave {
namespace {

// A packed panel of the right operand stays in the second cache (2 MiB on every processor with AMX) while rows stream by.
constexpr std::int64_t right_panel_elements = 512 * 1024;
constexpr std::int64_t left_panel_elements = 256 * 1024;  // packed, beside the right one
constexpr std::int64_t summed_rows = 512;                // whose sums of pieces are kept at once
constexpr std::int64_t longest_depth = 4096;  // summed in one go; more is summed in pieces of
constexpr std::int64_t depth_piece = 2048;
constexpr std::int64_t packed_depth_piece = 1024;  // where the left operand is packed too
constexpr std::int64_t fewest_rows = 32;
// A larger output is gone from a core's caches before it is read: written past them, its lines are not fetched first.
constexpr std::size_t cached_output_bytes = 2 << 20;

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }
std::int64_t round_up(std::int64_t value, std::int64_t to) { return divide_up(value, to) * to; }

struct Operand {
  const Bf16Bits* data = nullptr;
  std::int64_t row = 0;     // elements from row to row of its memory
  bool transposed = false;  // its memory has the summed axis along columns on the right, along rows on the left
};

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};

// Part `index` of `parts` of [0, count), in whole blocks.
Range part_of(std::int64_t count, std::int64_t parts, std::int64_t index) {
  const std::int64_t blocks = divide_up(count, amx_block);
  const auto bound = [&](std::int64_t part) { return std::min(count, part * blocks / parts * amx_block); };
  return {bound(index), bound(index + 1)};
}

}  // namespace

// out[rows, columns] (+)= left[rows, depth] right[depth, columns]
struct AmxProducts::Product {
  std::int64_t rows = 0, columns = 0, depth = 0;
  Operand left, right;
  Tensor out;
  bool accumulate = false;

  std::int64_t piece() const {
    if (left.transposed) return std::min(depth, packed_depth_piece);
    return depth <= longest_depth ? depth : depth_piece;
  }
  std::int64_t padded_piece() const { return round_up(piece(), amx_tile_depth); }
  bool summed_in_pieces() const { return depth > piece() && out.dtype == DType::bf16; }
};

namespace {

// At least one.
std::int64_t whole_blocks(std::int64_t count) { return std::max<std::int64_t>(1, count / amx_block) * amx_block; }

// How threads share the output: a grid of row parts and column parts.
struct Grid {
  std::int64_t rows = 1, columns = 1;
};

// The grid that takes least time, by the blocks of its largest part and the bytes its threads read and pack. The rates are
// rough: they only weigh one against the other.
Grid choose_grid(std::int64_t threads, std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  constexpr double operations_a_second = 1.5e12, elements_a_second = 5e9;
  Grid best;
  double best_seconds = 0;
  for (std::int64_t row_parts = 1; row_parts <= threads; ++row_parts) {
    if (threads % row_parts != 0) continue;
    const std::int64_t column_parts = threads / row_parts;
    const auto own_rows = static_cast<double>(round_up(divide_up(rows, row_parts), amx_block));
    const auto own_columns = static_cast<double>(round_up(divide_up(columns, column_parts), amx_block));
    const auto length = static_cast<double>(depth);
    const double seconds = 2 * own_rows * own_columns * length / operations_a_second +
                           (own_rows + own_columns) * length / elements_a_second;
    if (row_parts == 1 || seconds < best_seconds) {
      best = {row_parts, column_parts};
      best_seconds = seconds;
    }
  }
  return best;
}

// One thread's working memory, in elements of bf16.
struct ThreadMemory {
  std::int64_t right = 0, left = 0, row = 0, sums = 0;
  std::int64_t elements() const { return right + left + row + sums; }
};

}  // namespace

void AmxProducts::run(const Product& p) {
  if (p.rows == 0 || p.columns == 0 || p.depth == 0) return;
  const AmxKernels& kernels = simd::amx_bf16::amx_kernels;
  const std::int64_t piece = p.piece();
  const std::int64_t panel_columns =
      std::min(round_up(p.columns, amx_block), whole_blocks(right_panel_elements / p.padded_piece()));
  // Rows are taken in chunks where something of theirs has to be kept: packed, or in sums of pieces.
  const std::int64_t chunk_rows = p.left.transposed     ? whole_blocks(left_panel_elements / p.padded_piece())
                                  : p.summed_in_pieces() ? summed_rows
                                                         : round_up(p.rows, amx_block);
  const Grid grid = choose_grid(omp_get_max_threads(), p.rows, p.columns, p.depth);
  const ThreadMemory memory = {.right = panel_columns * p.padded_piece(),
                               .left = p.left.transposed ? chunk_rows * p.padded_piece() : 0,
                               .row = amx_block * p.padded_piece(),
                               .sums = p.summed_in_pieces() ? 2 * chunk_rows * panel_columns : 0};
  const std::int64_t threads = grid.rows * grid.columns;
  Bf16Bits* const scratch = scratch_.get<Bf16Bits>(threads * memory.elements());
  const auto out_size = static_cast<std::int64_t>(size_of(p.out.dtype));

#pragma omp parallel for schedule(static, 1)
  for (std::int64_t thread = 0; thread < threads; ++thread) {
    const Range rows = part_of(p.rows, grid.rows, thread / grid.columns);
    const Range columns = part_of(p.columns, grid.columns, thread % grid.columns);
    Bf16Bits* const right = scratch + thread * memory.elements();
    Bf16Bits* const left = right + memory.right;
    Bf16Bits* const row_scratch = left + memory.left;
    float* const sums = reinterpret_cast<float*>(row_scratch + memory.row);
    kernels.configure();
    const auto pack_right = [&](std::int64_t n, std::int64_t count, std::int64_t k, std::int64_t depth) {
      if (p.right.transposed) {
        kernels.pack_right_transposed(p.right.data + n * p.right.row + k, p.right.row, depth, count, right);
      } else {
        kernels.pack_right(p.right.data + k * p.right.row + n, p.right.row, depth, count, right);
      }
    };
    const auto multiply = [&](Range chunk, std::int64_t n, std::int64_t count, std::int64_t k, std::int64_t depth) {
      AmxProduct part;
      part.left = p.left.data + chunk.begin * p.left.row + k;
      part.left_row = p.left.row;
      if (p.left.transposed) {
        kernels.pack_left_transposed(p.left.data + k * p.left.row + chunk.begin, p.left.row, depth, chunk.count(), left);
        part.left = left;
        part.left_row = 0;
      }
      part.right = right;
      part.rows = chunk.count();
      part.columns = count;
      part.depth = depth;
      part.row_scratch = row_scratch;
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
      for (std::int64_t m = rows.begin; m < rows.end; m += chunk_rows) body(Range{m, std::min(rows.end, m + chunk_rows)});
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
        each_chunk([&](Range chunk) {
          each_piece([&](std::int64_t k, std::int64_t depth) { multiply(chunk, n, count, k, depth); });
          for (std::int64_t m = 0; m < chunk.count(); ++m) {
            Bf16Bits* const to = static_cast<Bf16Bits*>(p.out.data) + (chunk.begin + m) * p.columns + n;
            kernels.round(sums + m * panel_columns, to, count);
          }
        });
      } else {
        each_piece([&](std::int64_t k, std::int64_t depth) {
          each_chunk([&](Range chunk) { multiply(chunk, n, count, k, depth); });
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
