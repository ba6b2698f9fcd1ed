// Element by element operations of the CPU backend; arguments as in core/backend/backend.h.
#pragma once

#include "core/tensor/tensor.h"

namespace longwave {

void copy_cpu(Tensor from, Tensor to);  // between fp32, bf16 and fp64, or equal types
void zero_cpu(Tensor tensor);
void add_cpu(Tensor x, Tensor to);
void swiglu_forward_cpu(Tensor gate_up, Tensor out);
void swiglu_backward_cpu(Tensor dout, Tensor gate_up, Tensor dgate_up);

}  // namespace longwave
