// RMSNorm of one row of `width` elements; norm.h has the rows.
#pragma once

#include "core/backend/cpu/isa.h"

namespace longwave {

struct NormKernels {
  // y = x * rstd * gain; returns rstd = 1 / sqrt(mean(x^2) + epsilon).
  float (*forward[activation_types])(const void* x, const void* gain, float epsilon, void* y, std::int64_t width);
  // residual += branch, then the above of the sum as it was stored.
  float (*add_forward[activation_types])(void* residual, const void* branch, const void* gain, float epsilon, void* y,
                                         std::int64_t width);
  // dx += the gradient of x, dgain += that of gain.
  void (*backward[activation_types])(const void* dy, const void* x, const void* gain, float rstd, void* dx, float* dgain,
                                     std::int64_t width);
};

LONGWAVE_DECLARE_KERNELS(NormKernels, norm_kernels)

}  // namespace longwave
