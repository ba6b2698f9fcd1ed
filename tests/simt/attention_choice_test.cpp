// Which attention kernels a GPU gets; that the chosen ones compute attention is the matter of attention_test.cpp.
#include "core/backend/cuda/attention_choice.h"

#include <gmock/gmock.h>

#include "core/base/error.h"

namespace longwave::cuda {
namespace {

using testing::HasSubstr;

std::string refusal(std::int64_t head_dim, ComputeCapability capability) {
  try {
    choose_attention(head_dim, capability);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    return error.what();
  }
  return "none";
}

TEST(AttentionChoice, EveryGpuFromAmpereOnHasKernelsForBothHeadDims) {
  for (const ComputeCapability capability : {ComputeCapability{8, 0}, {8, 6}, {8, 9}, {9, 0}, {10, 0}, {12, 0}}) {
    const AttentionKernels& narrow = choose_attention(64, capability);
    const AttentionKernels& wide = choose_attention(128, capability);
    EXPECT_THAT(narrow.name, HasSubstr("head_dim 64"));
    EXPECT_THAT(wide.name, HasSubstr("head_dim 128"));
    EXPECT_NE(narrow.forward, wide.forward);
    EXPECT_NE(narrow.backward, wide.backward);
    EXPECT_EQ(attention_obstacle(64, capability), "");
  }
}

TEST(AttentionChoice, OlderGpusAreRefusedByNameWhateverTheHeadDim) {
  for (const std::int64_t head_dim : {64, 128, 80}) {
    const std::string line = refusal(head_dim, {7, 5});
    EXPECT_THAT(line, HasSubstr("the GPU is sm_75"));
    EXPECT_THAT(line, HasSubstr("sm_80 or newer"));
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
  EXPECT_THAT(refusal(64, {7, 0}), HasSubstr("sm_70"));
}

TEST(AttentionChoice, OtherHeadDimsAreRefusedByTheirKey) {
  for (const std::int64_t head_dim : {0, 32, 96, 256}) {
    EXPECT_THAT(refusal(head_dim, {9, 0}), HasSubstr(fmt::format("model.head_dim is {}, and the GPU kernels have 64 and 128", head_dim)));
  }
}

}  // namespace
}  // namespace longwave::cuda
