// AdamW (Loshchilov and Hutter, arXiv 1711.05101) and the gradient norm of the CPU backend; arguments as in
// core/backend/backend.h.
#pragma once

#include "core/backend/backend.h"
#include "core/backend/cpu/scratch.h"

namespace longwave {

void adamw_cpu(Tensor master, Tensor gradient, Tensor moment1, Tensor moment2, Tensor value, const AdamWStep& step);
void sum_of_squares_cpu(Tensor x, Tensor sum, Scratch& scratch);

}  // namespace longwave
