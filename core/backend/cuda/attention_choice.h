// Which attention kernels run: chosen at run time, here and nowhere else.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

namespace longwave::cuda {

struct AttentionOperands;

struct ComputeCapability {
  int major = 0;
  int minor = 0;

  auto operator<=>(const ComputeCapability&) const = default;
};

struct AttentionKernels {
  const char* name;  // the instructions they are made of, and the head_dim
  void (*forward)(cudaStream_t, const AttentionOperands&);
  void (*backward)(cudaStream_t, const AttentionOperands&);
};

// Why a model of this head_dim cannot run on a GPU of this capability, as a clause of a sentence; empty when it can.
std::string attention_obstacle(std::int64_t head_dim, ComputeCapability capability);

// The fastest kernels that this GPU has for head_dim. Throws config_error, with the obstacle, when there are none.
const AttentionKernels& choose_attention(std::int64_t head_dim, ComputeCapability capability);

}  // namespace longwave::cuda
