// Tiles of queries, keys and values in shared memory, and the pieces of them that tensor cores take.
//
// A tile is [rows, D] bf16. The 16-byte chunks of a row are exchanged by the row's number, so that the eight rows ldmatrix
// reads at once are in different banks. Fragments are those of mma.m16n8k16: lane 4 g + t holds rows g and g + 8, and
// columns 2 t and 2 t + 1 of each eight.
#pragma once

#include "core/backend/cuda/pack.h"

namespace longwave::cuda {

using device::Bf16;

template <int D> LONGWAVE_DEVICE Bf16* tile_at(Bf16* tile, int row, int chunk) {
  return tile + row * D + (chunk ^ (row & 7)) * 8;
}

// Starts copies of rows [first, first + rows) of a matrix whose rows are `stride` elements apart; rows at or past `limit` are
// zeros. All threads of the block take part.
template <int D, int rows, int threads>
LONGWAVE_DEVICE void load_tile(Bf16* tile, const Bf16* from, std::int64_t first, std::int64_t limit, std::int64_t stride) {
  constexpr int chunks = D / 8;
  LONGWAVE_UNROLL
  for (int i = 0; i < rows * chunks / threads; ++i) {
    const int index = i * threads + device::thread();
    const int row = index / chunks, chunk = index % chunks;
    const bool valid = first + row < limit;
    device::copy_async16(tile_at<D>(tile, row, chunk), from + (valid ? first + row : 0) * stride + chunk * 8, valid);
  }
}

// A [16, 16] of the tile: rows from `row`, columns 16 step and on.
template <int D> LONGWAVE_DEVICE void load_a(std::uint32_t (&a)[4], Bf16* tile, int row, int step) {
  const int lane = device::thread() % 32;
  device::load_matrices(a, tile_at<D>(tile, row + lane % 16, step * 2 + lane / 16));
}

// B [16, 16] as the transpose of rows [row, row + 16) and columns 16 step and on: b[0], b[1] of the first eight rows, then of
// the others.
template <int D> LONGWAVE_DEVICE void load_b_of_rows(std::uint32_t (&b)[4], Bf16* tile, int row, int step) {
  const int lane = device::thread() % 32;
  device::load_matrices(b, tile_at<D>(tile, row + lane % 8 + lane / 16 * 8, step * 2 + lane / 8 % 2));
}

// B [16, 16] as it lies: rows [row, row + 16), columns 8 chunk and on.
template <int D> LONGWAVE_DEVICE void load_b_of_columns(std::uint32_t (&b)[4], Bf16* tile, int row, int chunk) {
  const int lane = device::thread() % 32;
  device::load_matrices_transposed(b, tile_at<D>(tile, row + lane % 16, chunk + lane / 16));
}

// sums[16, columns] += rows [row, row + 16) of `left` times the first `columns` rows of `right`, transposed.
template <int D, int columns>
LONGWAVE_DEVICE void multiply_transposed(float (&sums)[columns / 8][4], Bf16* left, int row, Bf16* right) {
  LONGWAVE_UNROLL
  for (int step = 0; step < D / 16; ++step) {
    std::uint32_t a[4];
    load_a<D>(a, left, row, step);
    LONGWAVE_UNROLL
    for (int column = 0; column < columns / 8; column += 2) {
      std::uint32_t b[4];
      load_b_of_rows<D>(b, right, column * 8, step);
      device::mma_bf16(sums[column], a, b[0], b[1]);
      device::mma_bf16(sums[column + 1], a, b[2], b[3]);
    }
  }
}

// sums[16, D] += weights[16, rows] times the first `rows` rows of `right`; the weights are rounded to bf16.
template <int D, int rows>
LONGWAVE_DEVICE void multiply_weights(float (&sums)[D / 8][4], const float (&weights)[rows / 8][4], Bf16* right) {
  LONGWAVE_UNROLL
  for (int step = 0; step < rows / 16; ++step) {
    const float(&left)[4] = weights[step * 2];
    const float(&next)[4] = weights[step * 2 + 1];
    const std::uint32_t a[4] = {device::pack_bf16(left[0], left[1]), device::pack_bf16(left[2], left[3]),
                                device::pack_bf16(next[0], next[1]), device::pack_bf16(next[2], next[3])};
    LONGWAVE_UNROLL
    for (int column = 0; column < D / 8; column += 2) {
      std::uint32_t b[4];
      load_b_of_columns<D>(b, right, step * 16, column);
      device::mma_bf16(sums[column], a, b[0], b[1]);
      device::mma_bf16(sums[column + 1], a, b[2], b[3]);
    }
  }
}

// Writes sums[16, D], times `scale_low` for rows g and `scale_high` for rows g + 8, as bf16 rows of global memory `stride`
// apart, 16 bytes at a time by way of `tile` rows [row, row + 16), which no other warp may be using.
template <int D>
LONGWAVE_DEVICE void store_rows(const float (&sums)[D / 8][4], float scale_low, float scale_high, Bf16* tile, int row, Bf16* to,
                                std::int64_t first, std::int64_t limit, std::int64_t stride) {
  const int lane = device::thread() % 32;
  const int g = lane / 4, t = lane % 4;
  device::warp_barrier();
  LONGWAVE_UNROLL
  for (int column = 0; column < D / 8; ++column) {
    const float(&c)[4] = sums[column];
    auto* const low = reinterpret_cast<std::uint32_t*>(tile_at<D>(tile, row + g, column)) + t;
    auto* const high = reinterpret_cast<std::uint32_t*>(tile_at<D>(tile, row + g + 8, column)) + t;
    *low = device::pack_bf16(c[0] * scale_low, c[1] * scale_low);
    *high = device::pack_bf16(c[2] * scale_high, c[3] * scale_high);
  }
  device::warp_barrier();
  constexpr int chunks = D / 8;
  LONGWAVE_UNROLL
  for (int i = 0; i < 16 * chunks / 32; ++i) {
    const int index = i * 32 + lane;
    const int line = index / chunks, chunk = index % chunks;
    if (first + line < limit) {
      device::store16(to + (first + line) * stride + chunk * 8, device::load16(tile_at<D>(tile, row + line, chunk)));
    }
  }
}

}  // namespace longwave::cuda
