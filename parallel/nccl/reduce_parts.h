// Adds up what the members of a group have sent, in the order of their ranks.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "parallel/communicator.h"

namespace longwave {

// to[i] = from rank 0's, 1's, ... parts, reduced; `own` is this rank's part and `others` [size - 1, stride] the other ranks' in
// rank order. bf16 is summed in fp32 and rounded once. `to` may be `own`. Not for Element::byte.
void reduce_parts(cudaStream_t stream, const void* own, const void* others, std::int64_t stride, void* to, std::int64_t count,
                  int rank, int size, Element element, Reduction reduction);

}  // namespace longwave
