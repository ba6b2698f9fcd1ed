// Attention: fused q, k, v product (column-parallel by head), position transform, causal attention, output product
// (row-parallel).
#pragma once

#include <vector>

#include "core/model/parameter_store.h"
#include "core/model/position_tables.h"
#include "core/model/shard.h"

namespace longwave {

struct AttentionActivations {
  Tensor input;    // [padded rows, W]: normed, gathered
  Tensor qkv;      // [rows, (H + 2G) D]; only the backward of qk_norm or learnable tables reads it again
  Tensor qk_rstd;  // fp32 [B, H + G, T], with qk_norm
  Tensor q;        // [B, H, T, D]
  Tensor k, v;     // [B, G, T, D]
  Tensor out;      // [rows, H D]
  Tensor lse;      // fp32 [B, H, T]
};

struct AttentionWorkspace {
  Tensor dqkv;     // [rows, (H + 2G) D]
  Tensor dout;     // [rows, H D]
  Tensor dq;       // like q
  Tensor dk, dv;   // like k
  Tensor scratch;  // fp32, Backend::attention_backward_workspace
  PositionTable dtable;  // learnable coefficients
  Tensor partial;  // [padded rows, W]
};

class AttentionLayer {
 public:
  AttentionLayer(const Shard& shard, ParameterStore& store, PositionTables& positions, std::int64_t layer);

  // With `shared_qkv` all layers use that buffer for the product; null gives this layer its own.
  void plan(Arena& arena, const Rows& rows, AttentionActivations& saved, const Tensor* shared_qkv) const;
  void plan_workspace(Arena& arena, const Rows& rows, AttentionWorkspace& work) const;
  bool backward_needs_qkv() const { return shard_.model().qk_norm || positions_.learnable(); }

  // As MlpLayer's.
  void forward(const Rows& rows, const AttentionActivations& saved, const PositionTable& table, Tensor partial, Tensor branch) const;
  void backward(const Rows& rows, Tensor dbranch, const AttentionActivations& saved, const PositionTable& table,
                const AttentionWorkspace& work, Tensor dinput) const;

 private:
  QkNorm qk_norm() const;
  AttentionOptions options() const;

  const Shard& shard_;
  ParameterStore& store_;
  PositionTables& positions_;
  std::int64_t layer_;
  std::size_t query_;  // key and value follow
  std::size_t query_gain_ = 0, key_gain_ = 0;
  std::size_t out_;
  std::vector<float> slopes_;  // ALiBi, this shard's heads
};

}  // namespace longwave
