// The buffers of one pass over the model, laid out in one arena: a training pass keeps every block's activations for its
// backward, an evaluation pass lets all blocks use the same.
#pragma once

#include <vector>

#include "core/model/block.h"
#include "core/model/loss_head.h"

namespace longwave {

struct Pass {
  Rows rows;
  Tensor tokens;   // int32 [rows]
  Tensor targets;  // int32 [rows]
  Tensor weights;  // fp32 [rows]; training only
  std::vector<BlockActivations> blocks;  // one a layer, or one
  NormActivations final_norm;
  Tensor hidden;   // [padded rows, W]: final norm's output, gathered
  Tensor dhidden;  // [padded rows, W]; training only
  BlockWorkspace work;
  LossWorkspace loss;

  const BlockActivations& block(std::size_t layer) const { return blocks.size() == 1 ? blocks.front() : blocks[layer]; }
  // The residual buffer behind block `layer`: the next block's, or the final norm's.
  Tensor residual_after(std::size_t layer, std::size_t layers) const {
    return layer + 1 < layers ? block(layer + 1).attention_norm.input : final_norm.input;
  }
};

}  // namespace longwave
