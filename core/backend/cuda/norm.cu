#include <cmath>

#include "core/backend/cuda/kernels.h"
#include "core/backend/cuda/pack.h"
#include "core/backend/cuda/reduce.h"

namespace longwave::cuda {
namespace {

using namespace device;

constexpr int rows_a_block = 4;  // a warp each

// A warp a row. The second pass finds the row in the first-level cache.
template <int N, bool add_branch>
LONGWAVE_KERNEL(rows_a_block * 32)
rmsnorm_forward_kernel(Bf16* x, const Bf16* branch, const Bf16* gain, float epsilon, Bf16* y, float* rstd, std::int64_t rows,
                       std::int64_t width) {
  const int lane = thread() % 32;
  const std::int64_t row = static_cast<std::int64_t>(block_x()) * rows_a_block + thread() / 32;
  if (row >= rows) return;
  Bf16* const x_row = x + row * width;
  float squares = 0;
  for (std::int64_t i = lane * N; i < width; i += 32 * N) {
    float value[N];
    load_pack(x_row + i, value);
    if constexpr (add_branch) {
      float more[N];
      load_pack(branch + row * width + i, more);
      LONGWAVE_UNROLL
      for (int e = 0; e < N; ++e) value[e] = to_float(to_bf16(value[e] + more[e]));  // as stored: the backward sees only that
      store_pack(x_row + i, value);
    }
    LONGWAVE_UNROLL
    for (int e = 0; e < N; ++e) squares += value[e] * value[e];
  }
  squares = warp_reduce<Sum>(squares);
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(width) + epsilon);
  if (lane == 0) rstd[row] = scale;
  for (std::int64_t i = lane * N; i < width; i += 32 * N) {  // the same elements as above
    float value[N], factor[N];
    load_pack(x_row + i, value);
    load_pack(gain + i, factor);
    LONGWAVE_UNROLL
    for (int e = 0; e < N; ++e) value[e] *= scale * factor[e];
    store_pack(y + row * width + i, value);
  }
}

// A block walks over rows; a thread keeps its columns, and with them their part of dgain in registers.
// With z = x rstd and h = gain dy: dx += rstd (h - z mean(h z)), dgain += dy z.
template <int N, int passes>
LONGWAVE_KERNEL(256)
rmsnorm_backward_kernel(const Bf16* dy, const Bf16* x, const Bf16* gain, const float* rstd, Bf16* dx, float* partial,
                        std::int64_t rows, std::int64_t width) {
  LONGWAVE_SHARED(float, scratch, 32);
  const std::int64_t stride = static_cast<std::int64_t>(threads()) * N;
  float sums[passes][N] = {};
  for (std::int64_t row = block_x(); row < rows; row += grid_x()) {
    const float scale = rstd[row];
    float h[passes][N] = {}, z[passes][N] = {};
    float products = 0;
    LONGWAVE_UNROLL
    for (int pass = 0; pass < passes; ++pass) {
      const std::int64_t i = pass * stride + thread() * N;
      if (i >= width) continue;
      float factor[N];
      load_pack(dy + row * width + i, h[pass]);
      load_pack(x + row * width + i, z[pass]);
      load_pack(gain + i, factor);
      LONGWAVE_UNROLL
      for (int e = 0; e < N; ++e) {
        z[pass][e] *= scale;
        sums[pass][e] += h[pass][e] * z[pass][e];
        h[pass][e] *= factor[e];
        products += h[pass][e] * z[pass][e];
      }
    }
    const float mean = block_reduce<Sum>(products, scratch) / static_cast<float>(width);
    LONGWAVE_UNROLL
    for (int pass = 0; pass < passes; ++pass) {
      const std::int64_t i = pass * stride + thread() * N;
      if (i >= width) continue;
      float d[N];
      load_pack(dx + row * width + i, d);
      LONGWAVE_UNROLL
      for (int e = 0; e < N; ++e) d[e] += (h[pass][e] - z[pass][e] * mean) * scale;
      store_pack(dx + row * width + i, d);
    }
  }
  LONGWAVE_UNROLL
  for (int pass = 0; pass < passes; ++pass) {
    const std::int64_t i = pass * stride + thread() * N;
    if (i < width) store_pack(partial + block_x() * width + i, sums[pass]);
  }
}

LONGWAVE_KERNEL(128) add_lines_kernel(const float* partial, std::int64_t lines, std::int64_t width, float* to) {
  const std::int64_t column = static_cast<std::int64_t>(block_x()) * threads() + thread();
  if (column >= width) return;
  float sum = 0;
  for (std::int64_t line = 0; line < lines; ++line) sum += partial[line * width + column];
  to[column] += sum;
}

template <int N> auto backward_kernel(std::int64_t passes) {
  if (passes <= 1) return rmsnorm_backward_kernel<N, 1>;
  if (passes <= 2) return rmsnorm_backward_kernel<N, 2>;
  if (passes <= 4) return rmsnorm_backward_kernel<N, 4>;
  return rmsnorm_backward_kernel<N, 8>;
}

}  // namespace

void rmsnorm_forward(cudaStream_t stream, Bf16* x, const Bf16* branch, const Bf16* gain, float epsilon, Bf16* y, float* rstd,
                     std::int64_t rows, std::int64_t width) {
  const bool wide = packs_of_8(width, x, branch, gain, y);
  const auto kernel = branch == nullptr ? (wide ? rmsnorm_forward_kernel<8, false> : rmsnorm_forward_kernel<1, false>)
                                        : (wide ? rmsnorm_forward_kernel<8, true> : rmsnorm_forward_kernel<1, true>);
  launch("rmsnorm_forward", kernel, {.x = blocks_of(rows, rows_a_block)}, rows_a_block * 32, 0, stream, x, branch, gain, epsilon,
         y, rstd, rows, width);
}

void rmsnorm_backward(cudaStream_t stream, const Bf16* dy, const Bf16* x, const Bf16* gain, const float* rstd, Bf16* dx,
                      float* dgain, float* partial, std::int64_t rows, std::int64_t width) {
  const bool wide = packs_of_8(width, dy, x, gain, dx, partial);
  const std::int64_t packs = wide ? width / 8 : width;
  const std::int64_t threads = packs >= 256 ? 256 : blocks_of(packs, 32) * 32;
  const std::int64_t passes = blocks_of(packs, threads);
  const std::int64_t blocks = rows < norm_blocks ? rows : norm_blocks;
  launch("rmsnorm_backward", wide ? backward_kernel<8>(passes) : backward_kernel<1>(passes), {.x = blocks},
         static_cast<int>(threads), 0, stream, dy, x, gain, rstd, dx, partial, rows, width);
  add_lines(stream, partial, blocks, width, dgain);
}

void add_lines(cudaStream_t stream, const float* partial, std::int64_t lines, std::int64_t width, float* to) {
  launch("add_lines", add_lines_kernel, {.x = blocks_of(width, 128)}, 128, 0, stream, partial, lines, width, to);
}

}  // namespace longwave::cuda
