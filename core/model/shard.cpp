#include "core/model/shard.h"

namespace longwave {

Shard::Shard(const ModelConfig& model, DType compute, Backend* backend, TensorGroup& group)
    : model_(model), compute_(compute), backend_(backend), group_(&group) {
  const std::int64_t shards = group.size();
  const auto divides = [&](const char* key, std::int64_t value) {
    if (value % shards != 0) throw config_error("model.{} = {} cannot be split over parallel.tensor = {} shards", key, value, shards);
  };
  divides("heads", model.heads);
  divides("mlp_hidden", model.mlp_hidden);
  if (model.kv_heads % shards != 0 && shards % model.kv_heads != 0) {
    throw config_error("model.kv_heads = {} neither divides parallel.tensor = {} nor is divided by it", model.kv_heads, shards);
  }
}

Rows Shard::rows(std::int64_t batch, std::int64_t length) const {
  const std::int64_t count = batch * length;
  return {batch, length, count, group_->local_rows(count), group_->padded_rows(count)};
}

AttentionShape Shard::attention_shape(const Rows& rows) const {
  return {rows.batch, rows.length, heads(), kv_heads(), model_.head_dim};
}

Tensor Shard::gathered_like(Arena& arena, Tensor local, const Rows& rows) const {
  if (!group_->sequence_parallel()) return local;
  return arena.allocate(local.dtype, {rows.padded, local.shape[1]});
}

void Shard::gather_rows(Tensor local, Tensor full) const {
  if (group_->sequence_parallel()) group_->all_gather(local, full);
}

void Shard::sum_rows(Tensor full, const Rows& rows, Tensor local) const {
  if (!group_->sequence_parallel()) {
    group_->all_reduce_sum(full);
    return;
  }
  // Matrix products write the real rows only; the padding must not carry an earlier use of the buffer into the sum.
  if (rows.padded > rows.count) backend_->zero(full.rows(rows.count, rows.padded));
  group_->reduce_scatter(full, local);
}

}  // namespace longwave
