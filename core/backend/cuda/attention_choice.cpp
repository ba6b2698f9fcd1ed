#include "core/backend/cuda/attention_choice.h"

#include <algorithm>
#include <iterator>

#include "core/backend/cuda/kernels.h"
#include "core/base/error.h"

namespace longwave::cuda {
namespace {

struct Choice {
  std::int64_t head_dim;
  ComputeCapability least;
  AttentionKernels kernels;
};

// The first that fits is taken, so kernels that ask for a newer GPU stand before those that do not.
const Choice choices[] = {
    {64, {8, 0}, {"mma.sync, head_dim 64", attention_forward<64>, attention_backward<64>}},
    {128, {8, 0}, {"mma.sync, head_dim 128", attention_forward<128>, attention_backward<128>}},
};

const Choice* find_choice(std::int64_t head_dim, ComputeCapability capability) {
  const auto* const found = std::find_if(std::begin(choices), std::end(choices), [&](const Choice& choice) {
    return choice.head_dim == head_dim && choice.least <= capability;
  });
  return found == std::end(choices) ? nullptr : found;
}

}  // namespace

std::string attention_obstacle(std::int64_t head_dim, ComputeCapability capability) {
  if (find_choice(head_dim, capability) != nullptr) return {};
  if (capability < ComputeCapability{8, 0}) {
    return fmt::format("the GPU is sm_{}{}, and the kernels need the bf16 tensor cores of sm_80 or newer", capability.major,
                       capability.minor);
  }
  return fmt::format("model.head_dim is {}, and the GPU kernels have 64 and 128", head_dim);
}

const AttentionKernels& choose_attention(std::int64_t head_dim, ComputeCapability capability) {
  const Choice* const choice = find_choice(head_dim, capability);
  if (choice == nullptr) throw config_error("no attention kernel: {}", attention_obstacle(head_dim, capability));
  return choice->kernels;
}

}  // namespace longwave::cuda
