#include <cmath>

#include "core/backend/cuda/kernels.h"
#include "core/backend/cuda/pack.h"

namespace longwave::cuda {
namespace {

using namespace device;

constexpr int block_threads = 256;

LONGWAVE_DEVICE std::int64_t first_item() { return static_cast<std::int64_t>(block_x()) * threads() + thread(); }
LONGWAVE_DEVICE std::int64_t item_stride() { return static_cast<std::int64_t>(grid_x()) * threads(); }

// Enough blocks to fill any GPU; each thread then takes several items.
std::int64_t grid_of(std::int64_t items) {
  const std::int64_t blocks = blocks_of(items, block_threads);
  return blocks < 2048 ? blocks : 2048;
}

template <int N> LONGWAVE_KERNEL(block_threads) add_kernel(const Bf16* x, Bf16* to, std::int64_t packs) {
  for (std::int64_t i = first_item(); i < packs; i += item_stride()) {
    float a[N], b[N];
    load_pack(x + i * N, a);
    load_pack(to + i * N, b);
    LONGWAVE_UNROLL
    for (int e = 0; e < N; ++e) b[e] += a[e];
    store_pack(to + i * N, b);
  }
}

LONGWAVE_DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

template <int N>
LONGWAVE_KERNEL(block_threads) swiglu_forward_kernel(const Bf16* gate_up, Bf16* out, std::int64_t rows, std::int64_t hidden) {
  const std::int64_t packs = hidden / N;
  for (std::int64_t i = first_item(); i < rows * packs; i += item_stride()) {
    const std::int64_t row = i / packs, column = i % packs * N;
    float gate[N], up[N], y[N];
    load_pack(gate_up + row * 2 * hidden + column, gate);
    load_pack(gate_up + (row * 2 + 1) * hidden + column, up);
    LONGWAVE_UNROLL
    for (int e = 0; e < N; ++e) y[e] = gate[e] * sigmoid(gate[e]) * up[e];
    store_pack(out + row * hidden + column, y);
  }
}

template <int N>
LONGWAVE_KERNEL(block_threads) swiglu_backward_kernel(const Bf16* dout, const Bf16* gate_up, Bf16* dgate_up, std::int64_t rows,
                                                      std::int64_t hidden) {
  const std::int64_t packs = hidden / N;
  for (std::int64_t i = first_item(); i < rows * packs; i += item_stride()) {
    const std::int64_t row = i / packs, column = i % packs * N;
    const std::int64_t gate_at = row * 2 * hidden + column, up_at = gate_at + hidden;
    float d[N], gate[N], up[N];
    load_pack(dout + row * hidden + column, d);
    load_pack(gate_up + gate_at, gate);
    load_pack(gate_up + up_at, up);
    LONGWAVE_UNROLL
    for (int e = 0; e < N; ++e) {
      const float s = sigmoid(gate[e]);
      const float dgate = d[e] * up[e] * s * (1.0f + gate[e] * (1.0f - s));
      up[e] = d[e] * gate[e] * s;
      gate[e] = dgate;
    }
    store_pack(dgate_up + gate_at, gate);
    store_pack(dgate_up + up_at, up);
  }
}

template <int N, class From, class To> LONGWAVE_KERNEL(block_threads) cast_kernel(const From* from, To* to, std::int64_t packs) {
  for (std::int64_t i = first_item(); i < packs; i += item_stride()) {
    if constexpr (sizeof(From) == 8 || sizeof(To) == 8) {
      to[i] = static_cast<To>(from[i]);
    } else {
      float values[N];
      load_pack(from + i * N, values);
      store_pack(to + i * N, values);
    }
  }
}

template <class From, class To> void launch_cast(cudaStream_t stream, const From* from, To* to, std::int64_t count) {
  if (sizeof(From) < 8 && sizeof(To) < 8 && packs_of_8(count, from, to)) {
    launch("cast", cast_kernel<8, From, To>, {.x = grid_of(count / 8)}, block_threads, 0, stream, from, to, count / 8);
  } else {
    launch("cast", cast_kernel<1, From, To>, {.x = grid_of(count)}, block_threads, 0, stream, from, to, count);
  }
}

}  // namespace

void add(cudaStream_t stream, const Bf16* x, Bf16* to, std::int64_t count) {
  if (packs_of_8(count, x, to)) {
    launch("add", add_kernel<8>, {.x = grid_of(count / 8)}, block_threads, 0, stream, x, to, count / 8);
  } else {
    launch("add", add_kernel<1>, {.x = grid_of(count)}, block_threads, 0, stream, x, to, count);
  }
}

void swiglu_forward(cudaStream_t stream, const Bf16* gate_up, Bf16* out, std::int64_t rows, std::int64_t hidden) {
  const bool wide = packs_of_8(hidden, gate_up, out);
  launch("swiglu_forward", wide ? swiglu_forward_kernel<8> : swiglu_forward_kernel<1>,
         {.x = grid_of(rows * hidden / (wide ? 8 : 1))}, block_threads, 0, stream, gate_up, out, rows, hidden);
}

void swiglu_backward(cudaStream_t stream, const Bf16* dout, const Bf16* gate_up, Bf16* dgate_up, std::int64_t rows,
                     std::int64_t hidden) {
  const bool wide = packs_of_8(hidden, dout, gate_up, dgate_up);
  launch("swiglu_backward", wide ? swiglu_backward_kernel<8> : swiglu_backward_kernel<1>,
         {.x = grid_of(rows * hidden / (wide ? 8 : 1))}, block_threads, 0, stream, dout, gate_up, dgate_up, rows, hidden);
}

void cast(cudaStream_t stream, const float* from, Bf16* to, std::int64_t count) { launch_cast(stream, from, to, count); }
void cast(cudaStream_t stream, const Bf16* from, float* to, std::int64_t count) { launch_cast(stream, from, to, count); }
void cast(cudaStream_t stream, const double* from, float* to, std::int64_t count) { launch_cast(stream, from, to, count); }
void cast(cudaStream_t stream, const float* from, double* to, std::int64_t count) { launch_cast(stream, from, to, count); }

}  // namespace longwave::cuda
