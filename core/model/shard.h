// What every layer of one shard knows: the device, the group, this shard's share of the sizes, and the borders between the
// region split along the rows (norms, residual) and the region split along heads, hidden units and vocabulary (matrix
// products). The borders are the conjugate pairs f and g of Megatron-LM.
#pragma once

#include <cstdint>

#include "core/backend/backend.h"
#include "core/model/model_config.h"
#include "core/model/tensor_group.h"
#include "core/tensor/arena.h"

namespace longwave {

// The rows of one micro-batch.
struct Rows {
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::int64_t count = 0;   // batch * length
  std::int64_t local = 0;   // rows of the residual stream on this shard
  std::int64_t padded = 0;  // rows after gathering; those past `count` are zero
};

class Shard {
 public:
  // Throws config_error when the sizes cannot be cut `group.size()` ways.
  Shard(const ModelConfig& model, DType compute, Backend* backend, TensorGroup& group);

  Backend& backend() const { return *backend_; }
  bool has_backend() const { return backend_ != nullptr; }  // false while only planning
  TensorGroup& group() const { return *group_; }
  const ModelConfig& model() const { return model_; }
  DType compute() const { return compute_; }

  std::int64_t heads() const { return model_.heads / group_->size(); }
  std::int64_t kv_heads() const { return kv_replicas() > 1 ? 1 : model_.kv_heads / group_->size(); }
  std::int64_t first_head() const { return group_->rank() * heads(); }
  std::int64_t first_kv_head() const { return group_->rank() / kv_replicas() * kv_heads(); }
  // Shards that hold the same KV head, when there are fewer KV heads than shards.
  std::int64_t kv_replicas() const { return group_->size() > model_.kv_heads ? group_->size() / model_.kv_heads : 1; }
  std::int64_t hidden() const { return model_.mlp_hidden / group_->size(); }
  std::int64_t vocabulary() const { return model_.padded_vocabulary(group_->size()) / group_->size(); }  // rows held, padding included
  std::int64_t first_token() const { return group_->rank() * vocabulary(); }
  std::int64_t qkv_columns() const { return (heads() + 2 * kv_heads()) * model_.head_dim; }
  std::int64_t attention_columns() const { return heads() * model_.head_dim; }

  Rows rows(std::int64_t batch, std::int64_t length) const;
  AttentionShape attention_shape(const Rows& rows) const;

  // A buffer for gathered rows that belongs to `local`: the same memory unless sequence parallelism splits the rows.
  Tensor gathered_like(Arena& arena, Tensor local, const Rows& rows) const;

  // local [rows.local, W] -> full [rows.padded, W].
  void gather_rows(Tensor local, Tensor full) const;
  // full [rows.padded, W], this shard's part of a sum -> local [rows.local, W], the sum.
  void sum_rows(Tensor full, const Rows& rows, Tensor local) const;

 private:
  ModelConfig model_;
  DType compute_;
  Backend* backend_;
  TensorGroup* group_;
};

}  // namespace longwave
