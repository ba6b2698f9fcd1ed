// Kernels over flat ranges of `count` elements, one instruction set each; elementwise.h cuts the work between threads.
// Template-like suffixes name the memory types of the arguments, in order.
#pragma once

#include "core/backend/cpu/isa.h"

namespace longwave {

struct ElementwiseKernels {
  // y[i] = e^x[i]
  void (*exp)(const float* x, float* y, std::int64_t count);
  // to[i] += x[i]
  void (*add_f32)(const float* x, float* to, std::int64_t count);
  void (*add_bf16)(const Bf16Bits* x, Bf16Bits* to, std::int64_t count);
  // dtable row += dout row
  void (*add_bf16_f32)(const Bf16Bits* x, float* to, std::int64_t count);
  // to[i] = x[i], rounded or widened
  void (*cast_f32_bf16)(const float* x, Bf16Bits* to, std::int64_t count);
  void (*cast_bf16_f32)(const Bf16Bits* x, float* to, std::int64_t count);
  // out = silu(gate) * up
  void (*swiglu_f32)(const float* gate, const float* up, float* out, std::int64_t count);
  void (*swiglu_bf16)(const Bf16Bits* gate, const Bf16Bits* up, Bf16Bits* out, std::int64_t count);
  // The gradients of gate and up from that of out; dgate may be gate, and dup may be up.
  void (*swiglu_backward_f32)(const float* dout, const float* gate, const float* up, float* dgate, float* dup, std::int64_t count);
  void (*swiglu_backward_bf16)(const Bf16Bits* dout, const Bf16Bits* gate, const Bf16Bits* up, Bf16Bits* dgate, Bf16Bits* dup,
                               std::int64_t count);
};

LONGWAVE_DECLARE_KERNELS(ElementwiseKernels, elementwise_kernels)

}  // namespace longwave
