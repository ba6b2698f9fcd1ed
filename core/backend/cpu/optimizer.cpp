#include "core/backend/cpu/optimizer.h"

#include "core/backend/cpu/optimizer_kernels.h"
#include "core/backend/cpu/parallel.h"

namespace longwave {

LONGWAVE_DEFINE_KERNELS(OptimizerKernels, optimizer_kernels)

void adamw_cpu(Tensor master, Tensor gradient, Tensor moment1, Tensor moment2, Tensor value, const AdamWStep& step) {
  const std::int64_t count = master.count();
  LONGWAVE_CHECK(gradient.count() == count && moment1.count() == count && moment2.count() == count && value.count() == count);
  const AdamWFactors factors = {
      .gradient_scale = step.gradient_scale,
      .beta1 = step.beta1,
      .beta2 = step.beta2,
      .step_size = step.learning_rate / step.bias_correction1,
      .inverse_correction2 = 1.0f / step.bias_correction2,
      .epsilon = step.epsilon,
      .decay = step.learning_rate * step.weight_decay,
  };
  const auto kernel = optimizer_kernels().adamw[kernel_of(value.dtype)];
  float* weights = master.as<float>();
  const float* gradients = gradient.as<float>();
  float* first = moment1.as<float>();
  float* second = moment2.as<float>();
  parallel_ranges(count, elements_a_range, [&](std::int64_t begin, std::int64_t end) {
    kernel(weights + begin, gradients + begin, first + begin, second + begin, element(value, begin), factors, end - begin);
  });
}

void sum_of_squares_cpu(Tensor x, Tensor sum, Scratch& scratch) {
  const float* values = x.as<float>();
  const std::int64_t blocks = divide_up(x.count(), elements_a_range);
  double* partial = scratch.get<double>(blocks);
  parallel_ranges(x.count(), elements_a_range, [&](std::int64_t begin, std::int64_t end) {
    partial[begin / elements_a_range] = optimizer_kernels().sum_of_squares(values + begin, end - begin);
  });
  double total = 0;
  for (std::int64_t block = 0; block < blocks; ++block) total += partial[block];
  sum.as<double>()[0] += total;
}

}  // namespace longwave
