// Sizes of a model: the `model:` section of a job file, resolved.
#pragma once

#include <cstdint>

#include "core/base/divide.h"

namespace longwave {

struct ModelConfig {
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t mlp_hidden = 0;  // SwiGLU
  std::int64_t context = 0;     // training length L
  std::int64_t vocabulary = 0;  // ids the tokenizer can give; the rows are padded to a multiple of 64 in memory only
  bool tied = false;            // the head is the embedding, transposed
  bool qk_norm = false;         // RMSNorm of q and k before the position transform
  double norm_epsilon = 1e-6;

  std::int64_t padded_vocabulary(std::int64_t tensor_shards = 1) const {
    const std::int64_t unit = 64 * tensor_shards;
    return round_up(vocabulary, unit);
  }
};

}  // namespace longwave
