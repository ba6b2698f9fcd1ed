// AdamW and the gradient norm over flat fp32 ranges; optimizer.h cuts the work between threads.
#pragma once

#include "core/backend/cpu/isa.h"

namespace longwave {

// AdamWStep as the kernel multiplies with it.
struct AdamWFactors {
  float gradient_scale;
  float beta1, beta2;
  float step_size;              // learning_rate / bias_correction1
  float inverse_correction2;    // 1 / bias_correction2
  float epsilon;
  float decay;                  // learning_rate * weight_decay
};

struct OptimizerKernels {
  // value (fp32 or bf16; in fp32 it may be master) is written from the new master.
  void (*adamw[activation_types])(float* master, const float* gradient, float* moment1, float* moment2, void* value,
                                  const AdamWFactors& factors, std::int64_t count);
  double (*sum_of_squares)(const float* x, std::int64_t count);
};

LONGWAVE_DECLARE_KERNELS(OptimizerKernels, optimizer_kernels)

}  // namespace longwave
