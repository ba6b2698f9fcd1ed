// Kernels over flat ranges of `count` elements; elementwise.h cuts the work between threads.
#pragma once

#include "core/backend/cpu/isa.h"

namespace longwave {

struct ElementwiseKernels {
  // y[i] = e^x[i], fp32
  void (*exp)(const float* x, float* y, std::int64_t count);
  // to[i] += x[i]
  void (*add[activation_types])(const void* x, void* to, std::int64_t count);
  // to[i] += x[i] into fp32
  void (*accumulate[activation_types])(const void* x, float* to, std::int64_t count);
  // to[i] = x[i], rounded to nearest even or widened
  void (*to_bf16)(const float* x, Bf16Bits* to, std::int64_t count);
  void (*from_bf16)(const Bf16Bits* x, float* to, std::int64_t count);
  // out = silu(gate) * up
  void (*swiglu[activation_types])(const void* gate, const void* up, void* out, std::int64_t count);
  // The gradients of gate and up from that of out; dgate may be gate, and dup may be up.
  void (*swiglu_backward[activation_types])(const void* dout, const void* gate, const void* up, void* dgate, void* dup,
                                            std::int64_t count);
};

LONGWAVE_DECLARE_KERNELS(ElementwiseKernels, elementwise_kernels)

}  // namespace longwave
