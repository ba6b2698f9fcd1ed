// RMSNorm (Zhang and Sennrich, arXiv 1910.07467) of the CPU backend; arguments as in core/backend/backend.h.
#pragma once

#include "core/backend/cpu/scratch.h"
#include "core/tensor/tensor.h"

namespace longwave {

void rmsnorm_forward_cpu(Tensor x, Tensor gain, float epsilon, Tensor y, Tensor rstd);
void add_rmsnorm_forward_cpu(Tensor residual, Tensor branch, Tensor gain, float epsilon, Tensor y, Tensor rstd);
void rmsnorm_backward_cpu(Tensor dy, Tensor x, Tensor gain, Tensor rstd, Tensor dx, Tensor dgain, Scratch& scratch);

}  // namespace longwave
