#include <cmath>

#include "core/backend/cuda/kernels.h"
#include "core/backend/cuda/pack.h"
#include "core/backend/cuda/reduce.h"

namespace longwave::cuda {
namespace {

using namespace device;

constexpr int block_threads = 256;

template <int N, class Value>
LONGWAVE_KERNEL(block_threads)
adamw_kernel(float* master, const float* gradient, float* moment1, float* moment2, Value* value, AdamWFactors f,
             std::int64_t packs) {
  for (std::int64_t pack = static_cast<std::int64_t>(block_x()) * threads() + thread(); pack < packs;
       pack += static_cast<std::int64_t>(grid_x()) * threads()) {
    const std::int64_t i = pack * N;
    float weight[N], g[N], m[N], v[N];
    load_pack(master + i, weight);
    load_pack(gradient + i, g);
    load_pack(moment1 + i, m);
    load_pack(moment2 + i, v);
    LONGWAVE_UNROLL
    for (int e = 0; e < N; ++e) {
      g[e] *= f.gradient_scale;
      m[e] = m[e] * f.beta1 + g[e] * (1.0f - f.beta1);
      v[e] = v[e] * f.beta2 + g[e] * g[e] * (1.0f - f.beta2);
      weight[e] = weight[e] - weight[e] * f.decay - m[e] * f.step_size / (sqrtf(v[e] * f.inverse_correction2) + f.epsilon);
    }
    store_pack(moment1 + i, m);
    store_pack(moment2 + i, v);
    store_pack(master + i, weight);
    store_pack(value + i, weight);
  }
}

template <class Value>
void launch_adamw(cudaStream_t stream, float* master, const float* gradient, float* moment1, float* moment2, Value* value,
                  const AdamWFactors& factors, std::int64_t count) {
  const bool wide = packs_of_8(count, master, gradient, moment1, moment2, value);
  const std::int64_t packs = wide ? count / 8 : count;
  const std::int64_t blocks = blocks_of(packs, block_threads);
  launch("adamw", wide ? adamw_kernel<8, Value> : adamw_kernel<1, Value>, {.x = blocks < 4096 ? blocks : 4096}, block_threads, 0,
         stream, master, gradient, moment1, moment2, value, factors, packs);
}

// Each block a contiguous part, so that the sums depend on the count alone.
template <int N> LONGWAVE_KERNEL(block_threads) squares_kernel(const float* x, double* partial, std::int64_t packs) {
  LONGWAVE_SHARED(double, scratch, 32);
  const std::int64_t part = (packs + grid_x() - 1) / grid_x();
  const std::int64_t begin = part * block_x();
  const std::int64_t limit = begin + part < packs ? begin + part : packs;
  double sum = 0;
  for (std::int64_t pack = begin + thread(); pack < limit; pack += threads()) {
    float value[N];
    load_pack(x + pack * N, value);
    LONGWAVE_UNROLL
    for (int e = 0; e < N; ++e) sum += static_cast<double>(value[e]) * static_cast<double>(value[e]);
  }
  sum = block_reduce<Sum>(sum, scratch);
  if (thread() == 0) partial[block_x()] = sum;
}

LONGWAVE_KERNEL(block_threads) add_partial_kernel(const double* partial, int count, double* sum) {
  LONGWAVE_SHARED(double, scratch, 32);
  double own = 0;
  for (int i = thread(); i < count; i += threads()) own += partial[i];
  own = block_reduce<Sum>(own, scratch);
  if (thread() == 0) sum[0] += own;
}

}  // namespace

void adamw(cudaStream_t stream, float* master, const float* gradient, float* moment1, float* moment2, Bf16* value,
           const AdamWFactors& factors, std::int64_t count) {
  launch_adamw(stream, master, gradient, moment1, moment2, value, factors, count);
}

void adamw(cudaStream_t stream, float* master, const float* gradient, float* moment1, float* moment2, float* value,
           const AdamWFactors& factors, std::int64_t count) {
  launch_adamw(stream, master, gradient, moment1, moment2, value, factors, count);
}

void sum_of_squares(cudaStream_t stream, const float* x, double* sum, double* partial, std::int64_t count) {
  const bool wide = packs_of_8(count, x);
  const std::int64_t packs = wide ? count / 8 : count;
  const std::int64_t needed = blocks_of(packs, 4 * block_threads);
  const std::int64_t blocks = needed < square_blocks ? needed : square_blocks;
  launch("sum_of_squares", wide ? squares_kernel<8> : squares_kernel<1>, {.x = blocks}, block_threads, 0, stream, x, partial,
         packs);
  launch("add_partial", add_partial_kernel, {.x = 1}, block_threads, 0, stream, partial, blocks, sum);
}

}  // namespace longwave::cuda
