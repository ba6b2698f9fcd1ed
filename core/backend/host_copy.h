// fp32 values on the host to and from a tensor of the compute type.
#pragma once

#include <vector>

#include "core/backend/backend.h"

namespace longwave {

// from [to.count()], rounded to nearest even when `to` is bf16.
void upload(Backend& backend, const float* from, Tensor to);
// The values of an fp32 or bf16 tensor.
std::vector<float> download(Backend& backend, Tensor from);

}  // namespace longwave
