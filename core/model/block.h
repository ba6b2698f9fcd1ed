// One transformer block, pre-norm: residual + attention(norm(residual)), then residual + mlp(norm(residual)). Each addition
// is fused into the norm that follows it, so a block starts at a norm and leaves its MLP branch un-added in the next
// block's residual buffer.
#pragma once

#include "core/model/attention_layer.h"
#include "core/model/mlp_layer.h"
#include "core/model/norm.h"

namespace longwave {

struct BlockActivations {
  NormActivations attention_norm;  // input: the residual before attention, X
  AttentionActivations attention;
  NormActivations mlp_norm;        // input: the residual before the MLP, M
  MlpActivations mlp;
};

// Buffers that every block of a pass uses in turn.
struct BlockWorkspace {
  Tensor partial;         // [padded rows, W]: a shard's part of a sum, forward and backward; null data when rows are unsplit
  Tensor dnormed;         // [local rows, W]
  Tensor gradient;        // [local rows, W]: of the residual stream
  Tensor gradient_full;   // gathered
  AttentionWorkspace attention;
  MlpWorkspace mlp;
};

class Block {
 public:
  Block(const Shard& shard, ParameterStore& store, PositionTables& positions, std::int64_t layer);

  // Offset of the block's first trained parameter: gradients from here to the next block's are complete after `backward`.
  std::int64_t first_offset() const { return first_offset_; }

  void plan(Arena& arena, const Rows& rows, Tensor residual, BlockActivations& saved, const Tensor* shared_qkv) const;
  void plan_workspace(Arena& arena, const Rows& rows, BlockWorkspace& work) const;

  // `previous` is the residual to add to X first (null data for the first block, whose X is the embedding). Writes the MLP
  // branch to `next`, the next block's X.
  void forward(const Rows& rows, Tensor previous, const BlockActivations& saved, const PositionTable& table,
               const BlockWorkspace& work, Tensor next) const;
  // work.gradient: of the residual behind the block in, before it out.
  void backward(const Rows& rows, const BlockActivations& saved, const PositionTable& table, const BlockWorkspace& work) const;

  const AttentionLayer& attention() const { return attention_; }

 private:
  const Shard& shard_;
  std::int64_t first_offset_;
  Norm attention_norm_;
  AttentionLayer attention_;
  Norm mlp_norm_;
  MlpLayer mlp_;
};

}  // namespace longwave
