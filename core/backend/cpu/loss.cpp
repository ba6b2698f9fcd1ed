#include "core/backend/cpu/loss.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/backend/cpu/loss_kernels.h"
#include "core/backend/cpu/parallel.h"

namespace longwave {

LONGWAVE_DEFINE_KERNELS(LossKernels, loss_kernels)

namespace {

// How many of this shard's columns are in the vocabulary; the others are padding.
std::int64_t valid_columns(std::int64_t columns, std::int64_t first, std::int64_t vocabulary) {
  return std::clamp<std::int64_t>(vocabulary - first, 0, columns);
}

float logit_at(const Tensor& logits, std::int64_t index) {
  return logits.dtype == DType::f32 ? logits.as<float>()[index] : static_cast<float>(logits.as<bf16>()[index]);
}

void set_logit(const Tensor& logits, std::int64_t index, float value) {
  if (logits.dtype == DType::f32) {
    logits.as<float>()[index] = value;
  } else {
    logits.as<bf16>()[index] = bf16(value);
  }
}

}  // namespace

void logit_statistics_cpu(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary, Tensor maximum,
                          Tensor sum_exp, Tensor target_logit, Tensor argmax) {
  const std::int64_t rows = logits.shape[0], columns = logits.shape[1];
  LONGWAVE_CHECK(targets.count() == rows && maximum.count() == rows && sum_exp.count() == rows && target_logit.count() == rows);
  const std::int64_t valid = valid_columns(columns, first, vocabulary);
  const auto kernel = loss_kernels().statistics[kernel_of(logits.dtype)];
  const std::int32_t* target_of = targets.as<std::int32_t>();
  float* maximum_of = maximum.as<float>();
  float* sum_of = sum_exp.as<float>();
  float* target_logit_of = target_logit.as<float>();
  std::int32_t* argmax_of = argmax.as<std::int32_t>();
  parallel_rows(rows, columns, [&](std::int64_t row) {
    const LogitStatistics statistics = kernel(element(logits, row * columns), valid, argmax_of != nullptr);
    maximum_of[row] = statistics.maximum;
    sum_of[row] = statistics.sum_exp;
    if (argmax_of != nullptr) argmax_of[row] = static_cast<std::int32_t>(first + statistics.argmax);
    const std::int64_t target = target_of[row] - first;
    target_logit_of[row] = 0 <= target_of[row] && 0 <= target && target < valid ? logit_at(logits, row * columns + target) : 0;
  });
}

void rescale_sum_exp_cpu(Tensor own_maximum, Tensor maximum, Tensor sum_exp) {
  const float* own = own_maximum.as<float>();
  const float* group = maximum.as<float>();
  float* sum_of = sum_exp.as<float>();
  for (std::int64_t row = 0; row < sum_exp.count(); ++row) sum_of[row] *= std::exp(own[row] - group[row]);
}

void token_loss_cpu(Tensor targets, Tensor maximum, Tensor sum_exp, Tensor target_logit, Tensor loss) {
  const std::int32_t* target_of = targets.as<std::int32_t>();
  const float* maximum_of = maximum.as<float>();
  const float* sum_of = sum_exp.as<float>();
  const float* target_logit_of = target_logit.as<float>();
  float* loss_of = loss.as<float>();
  for (std::int64_t row = 0; row < loss.count(); ++row) {
    // The difference first: maximum and target are close and may be large, log(sum_exp) is small.
    loss_of[row] = target_of[row] < 0 ? 0.0f : std::log(sum_of[row]) + (maximum_of[row] - target_logit_of[row]);
  }
}

void cross_entropy_backward_cpu(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary, Tensor maximum,
                                Tensor sum_exp, Tensor weights) {
  const std::int64_t rows = logits.shape[0], columns = logits.shape[1];
  LONGWAVE_CHECK(targets.count() == rows && maximum.count() == rows && sum_exp.count() == rows && weights.count() == rows);
  const std::int64_t valid = valid_columns(columns, first, vocabulary);
  const auto kernel = loss_kernels().backward[kernel_of(logits.dtype)];
  const std::int32_t* target_of = targets.as<std::int32_t>();
  const float* maximum_of = maximum.as<float>();
  const float* sum_of = sum_exp.as<float>();
  const float* weight_of = weights.as<float>();
  const std::size_t size = size_of(logits.dtype);
  parallel_rows(rows, columns, [&](std::int64_t row) {
    const std::int64_t begin = row * columns;
    const std::int64_t used = target_of[row] < 0 ? 0 : valid;
    std::memset(element(logits, begin + used), 0, static_cast<std::size_t>(columns - used) * size);
    if (used == 0) return;
    const std::int64_t target = target_of[row] - first;
    const bool here = 0 <= target && target < valid;
    const float logit = here ? logit_at(logits, begin + target) : 0;
    kernel(element(logits, begin), used, maximum_of[row], sum_of[row], weight_of[row]);
    // p - 1 before it is rounded to the logits' type: a bf16 p near 1 would leave nothing of it.
    if (here) set_logit(logits, begin + target, weight_of[row] * (std::exp(logit - maximum_of[row]) / sum_of[row] - 1));
  });
}

void loss_totals_cpu(Tensor targets, Tensor loss, Tensor weights, Tensor totals) {
  const std::int32_t* target_of = targets.as<std::int32_t>();
  const float* loss_of = loss.as<float>();
  const float* weight_of = weights.as<float>();
  LONGWAVE_CHECK(totals.count() == 2 && weights.count() == loss.count() && targets.count() == loss.count());
  double weighted_loss = 0, weight = 0;
  for (std::int64_t row = 0; row < loss.count(); ++row) {
    if (target_of[row] < 0) continue;
    weighted_loss += static_cast<double>(weight_of[row]) * static_cast<double>(loss_of[row]);
    weight += static_cast<double>(weight_of[row]);
  }
  totals.as<double>()[0] += weighted_loss;
  totals.as<double>()[1] += weight;
}

}  // namespace longwave
