#include <cmath>

#include "core/backend/cuda/kernels.h"
#include "core/backend/cuda/pack.h"
#include "core/backend/cuda/reduce.h"

namespace longwave::cuda {
namespace {

using namespace device;

constexpr int row_threads = 256;  // of the block that has a row of logits
constexpr int flat_threads = 128;

// A sum of exponentials relative to its maximum, and where the maximum is.
struct Partial {
  float maximum;
  float sum;
  int argmax;
};

LONGWAVE_DEVICE bool wins(float value, int at, float other, int other_at) {
  return value > other || (value == other && at < other_at) || (value != value && other == other);
}

// -infinity only before the first element: exp(-infinity - -infinity) would be NaN.
LONGWAVE_DEVICE float rescaled(float sum, float from, float to) { return sum == 0 ? 0 : sum * expf(from - to); }

LONGWAVE_DEVICE Partial join(const Partial& a, const Partial& b) {
  const bool first = !wins(b.maximum, b.argmax, a.maximum, a.argmax);
  const float maximum = first ? a.maximum : b.maximum;
  return {maximum, rescaled(a.sum, a.maximum, maximum) + rescaled(b.sum, b.maximum, maximum), first ? a.argmax : b.argmax};
}

LONGWAVE_DEVICE Partial shuffled(const Partial& own, int lanes) {
  return {shuffle_xor(own.maximum, lanes), shuffle_xor(own.sum, lanes), shuffle_xor(own.argmax, lanes)};
}

template <int N>
LONGWAVE_KERNEL(row_threads)
logit_statistics_kernel(const Bf16* logits, const std::int32_t* targets, std::int64_t first, std::int64_t valid, float* maximum,
                        float* sum_exp, float* target_logit, std::int32_t* argmax, std::int64_t columns) {
  LONGWAVE_SHARED(float, maxima, row_threads / 32);
  LONGWAVE_SHARED(float, sums, row_threads / 32);
  LONGWAVE_SHARED(int, places, row_threads / 32);
  const std::int64_t row = block_x();
  const Bf16* const line = logits + row * columns;
  Partial own = {-INFINITY, 0, 0x7fffffff};
  for (std::int64_t i = thread() * N; i < valid; i += row_threads * N) {
    float value[N];
    load_pack(line + i, value);
    float best = -INFINITY;
    int place = 0x7fffffff;
    LONGWAVE_UNROLL
    for (int e = 0; e < N; ++e) {
      const int at = static_cast<int>(i) + e;
      if (at < valid && wins(value[e], at, best, place)) best = value[e], place = at;
    }
    if (wins(best, place, own.maximum, own.argmax)) {
      own.sum = rescaled(own.sum, own.maximum, best);
      own.maximum = best;
      own.argmax = place;
    }
    LONGWAVE_UNROLL
    for (int e = 0; e < N; ++e) {
      if (i + e < valid) own.sum += expf(value[e] - own.maximum);
    }
  }
  LONGWAVE_UNROLL
  for (int lanes = 16; lanes > 0; lanes /= 2) own = join(own, shuffled(own, lanes));
  if (thread() % 32 == 0) {
    maxima[thread() / 32] = own.maximum;
    sums[thread() / 32] = own.sum;
    places[thread() / 32] = own.argmax;
  }
  barrier();
  if (thread() != 0) return;
  for (int warp = 1; warp < row_threads / 32; ++warp) own = join(own, {maxima[warp], sums[warp], places[warp]});
  maximum[row] = own.maximum;
  sum_exp[row] = own.sum;
  if (argmax != nullptr) argmax[row] = static_cast<std::int32_t>(first + (own.argmax < valid ? own.argmax : 0));
  const std::int64_t target = targets[row] - first;
  target_logit[row] = targets[row] >= 0 && 0 <= target && target < valid ? to_float(line[target]) : 0;
}

template <int N>
LONGWAVE_KERNEL(row_threads)
cross_entropy_backward_kernel(Bf16* logits, const std::int32_t* targets, std::int64_t first, std::int64_t valid,
                              const float* maximum, const float* sum_exp, const float* weights, std::int64_t columns) {
  const std::int64_t row = block_x();
  Bf16* const line = logits + row * columns;
  const std::int64_t used = targets[row] < 0 ? 0 : valid;
  const std::int64_t target = targets[row] - first;
  const float top = maximum[row], scale = 1.0f / sum_exp[row], weight = weights[row];
  for (std::int64_t i = thread() * N; i < columns; i += row_threads * N) {
    float value[N];
    load_pack(line + i, value);
    LONGWAVE_UNROLL
    for (int e = 0; e < N; ++e) {
      // p - 1 before it is rounded: a bf16 p near 1 would leave nothing of it.
      const float p = expf(value[e] - top) * scale;
      value[e] = i + e < used ? weight * (p - (i + e == target ? 1.0f : 0.0f)) : 0.0f;
    }
    store_pack(line + i, value);
  }
}

LONGWAVE_KERNEL(flat_threads)
rescale_kernel(const float* own_maximum, const float* maximum, float* sum_exp, std::int64_t rows) {
  const std::int64_t row = static_cast<std::int64_t>(block_x()) * flat_threads + thread();
  if (row < rows) sum_exp[row] *= expf(own_maximum[row] - maximum[row]);
}

LONGWAVE_KERNEL(flat_threads)
token_loss_kernel(const std::int32_t* targets, const float* maximum, const float* sum_exp, const float* target_logit, float* loss,
                  std::int64_t rows) {
  const std::int64_t row = static_cast<std::int64_t>(block_x()) * flat_threads + thread();
  // The difference first: maximum and target are close and may be large, log(sum_exp) is small.
  if (row < rows) loss[row] = targets[row] < 0 ? 0.0f : logf(sum_exp[row]) + (maximum[row] - target_logit[row]);
}

constexpr int total_threads = 512;

LONGWAVE_KERNEL(total_threads)
loss_totals_kernel(const std::int32_t* targets, const float* loss, const float* weights, double* totals, std::int64_t rows) {
  LONGWAVE_SHARED(double, scratch, 32);
  double weighted = 0, weight = 0;
  for (std::int64_t row = thread(); row < rows; row += total_threads) {
    if (targets[row] < 0) continue;
    weighted += static_cast<double>(weights[row]) * static_cast<double>(loss[row]);
    weight += static_cast<double>(weights[row]);
  }
  weighted = block_reduce<Sum>(weighted, scratch);
  weight = block_reduce<Sum>(weight, scratch);
  if (thread() != 0) return;
  totals[0] += weighted;
  totals[1] += weight;
}

}  // namespace

void logit_statistics(cudaStream_t stream, const Bf16* logits, const std::int32_t* targets, std::int64_t first, std::int64_t valid,
                      float* maximum, float* sum_exp, float* target_logit, std::int32_t* argmax, std::int64_t rows,
                      std::int64_t columns) {
  launch("logit_statistics", packs_of_8(columns, logits) ? logit_statistics_kernel<8> : logit_statistics_kernel<1>, {.x = rows},
         row_threads, 0, stream, logits, targets, first, valid, maximum, sum_exp, target_logit, argmax, columns);
}

void rescale_sum_exp(cudaStream_t stream, const float* own_maximum, const float* maximum, float* sum_exp, std::int64_t rows) {
  launch("rescale_sum_exp", rescale_kernel, {.x = blocks_of(rows, flat_threads)}, flat_threads, 0, stream, own_maximum, maximum,
         sum_exp, rows);
}

void token_loss(cudaStream_t stream, const std::int32_t* targets, const float* maximum, const float* sum_exp,
                const float* target_logit, float* loss, std::int64_t rows) {
  launch("token_loss", token_loss_kernel, {.x = blocks_of(rows, flat_threads)}, flat_threads, 0, stream, targets, maximum, sum_exp,
         target_logit, loss, rows);
}

void cross_entropy_backward(cudaStream_t stream, Bf16* logits, const std::int32_t* targets, std::int64_t first, std::int64_t valid,
                            const float* maximum, const float* sum_exp, const float* weights, std::int64_t rows,
                            std::int64_t columns) {
  launch("cross_entropy_backward", packs_of_8(columns, logits) ? cross_entropy_backward_kernel<8> : cross_entropy_backward_kernel<1>,
         {.x = rows}, row_threads, 0, stream, logits, targets, first, valid, maximum, sum_exp, weights, columns);
}

void loss_totals(cudaStream_t stream, const std::int32_t* targets, const float* loss, const float* weights, double* totals,
                 std::int64_t rows) {
  launch("loss_totals", loss_totals_kernel, {.x = 1}, total_threads, 0, stream, targets, loss, weights, totals, rows);
}

}  // namespace longwave::cuda
