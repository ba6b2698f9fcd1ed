#include "core/model/attention_layer.h"

#include <fmt/format.h>

#include <cmath>

#include "core/model/projection.h"

namespace longwave {
namespace {

std::size_t add_head_gain(ParameterStore& store, const Shard& shard, const std::string& name) {
  Parameter gain;
  gain.name = name;
  gain.global_shape = gain.shape = {shard.model().head_dim};
  gain.decayed = true;
  gain.partial_gradient = shard.group().size() > 1;  // each shard sees its own heads
  gain.replicas = shard.group().size();
  gain.initialisation = Initialisation::ones;
  gain.dtype = shard.compute();
  return store.add(std::move(gain));
}

}  // namespace

AttentionLayer::AttentionLayer(const Shard& shard, ParameterStore& store, PositionTables& positions, std::int64_t layer)
    : shard_(shard), store_(store), positions_(positions), layer_(layer) {
  const ModelConfig& model = shard.model();
  const std::string prefix = fmt::format("model.layers.{}.self_attn.", layer);
  const std::int64_t query_rows = model.heads * model.head_dim;
  const std::int64_t first = shard.first_head() * model.head_dim;
  const Shape key_shape = {model.kv_heads * model.head_dim, model.width};
  const std::int64_t key_first = shard.first_kv_head() * model.head_dim;
  const std::int64_t key_count = shard.kv_heads() * model.head_dim;
  query_ = add_projection(store, shard, prefix + "q_proj.weight", {query_rows, model.width}, Split::rows, first, shard.attention_columns());
  add_projection(store, shard, prefix + "k_proj.weight", key_shape, Split::rows, key_first, key_count, shard.kv_replicas(), false);
  add_projection(store, shard, prefix + "v_proj.weight", key_shape, Split::rows, key_first, key_count, shard.kv_replicas(), false);
  if (model.qk_norm) {
    query_gain_ = add_head_gain(store, shard, prefix + "q_norm.weight");
    key_gain_ = add_head_gain(store, shard, prefix + "k_norm.weight");
  }
  positions.add_layer_parameters(store, layer);
  out_ = add_projection(store, shard, prefix + "o_proj.weight", {model.width, query_rows}, Split::columns, first, shard.attention_columns());
  if (positions.config().kind == PositionKind::alibi) slopes_ = alibi_slopes(model.heads, shard.first_head(), shard.heads());
}

void AttentionLayer::plan(Arena& arena, const Rows& rows, AttentionActivations& saved, const Tensor* shared_qkv) const {
  const AttentionShape shape = shard_.attention_shape(rows);
  const DType compute = shard_.compute();
  saved.qkv = shared_qkv != nullptr ? *shared_qkv : arena.allocate(compute, {rows.count, shard_.qkv_columns()});
  if (shard_.model().qk_norm) saved.qk_rstd = arena.allocate(DType::f32, {rows.batch, shape.heads + shape.kv_heads, rows.length});
  saved.q = arena.allocate(compute, {rows.batch, shape.heads, rows.length, shape.head_dim});
  saved.k = arena.allocate(compute, {rows.batch, shape.kv_heads, rows.length, shape.head_dim});
  saved.v = arena.allocate(compute, {rows.batch, shape.kv_heads, rows.length, shape.head_dim});
  saved.out = arena.allocate(compute, {rows.count, shard_.attention_columns()});
  saved.lse = arena.allocate(DType::f32, {rows.batch, shape.heads, rows.length});
}

void AttentionLayer::plan_workspace(Arena& arena, const Rows& rows, AttentionWorkspace& work) const {
  const AttentionShape shape = shard_.attention_shape(rows);
  const DType compute = shard_.compute();
  work.dqkv = arena.allocate(compute, {rows.count, shard_.qkv_columns()});
  work.dout = arena.allocate(compute, {rows.count, shard_.attention_columns()});
  work.dq = arena.allocate(compute, {rows.batch, shape.heads, rows.length, shape.head_dim});
  work.dk = arena.allocate(compute, {rows.batch, shape.kv_heads, rows.length, shape.head_dim});
  work.dv = arena.allocate(compute, {rows.batch, shape.kv_heads, rows.length, shape.head_dim});
  // Planning without a device sizes everything but this, which only the device knows.
  if (shard_.has_backend()) {
    work.scratch = arena.allocate(DType::f32, {shard_.backend().attention_backward_workspace(shape)});
  }
  work.dtable = positions_.plan_gradient(arena, rows.length);
}

QkNorm AttentionLayer::qk_norm() const {
  if (!shard_.model().qk_norm) return {};
  return {store_.value(query_gain_), store_.value(key_gain_), static_cast<float>(shard_.model().norm_epsilon)};
}

AttentionOptions AttentionLayer::options() const {
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shard_.model().head_dim)));
  return {scale, slopes_.empty() ? nullptr : slopes_.data()};
}

void AttentionLayer::forward(const Rows& rows, const AttentionActivations& saved, const PositionTable& table, Tensor partial,
                             Tensor branch) const {
  Backend& backend = shard_.backend();
  const AttentionShape shape = shard_.attention_shape(rows);
  backend.linear_forward(saved.input.rows(0, rows.count), store_.fused_value(query_, 3), saved.qkv);
  backend.qkv_split_forward(saved.qkv, shape, table, qk_norm(), saved.q, saved.k, saved.v, saved.qk_rstd);
  backend.attention_forward(saved.q, saved.k, saved.v, shape, options(), saved.out, saved.lse);
  backend.linear_forward(saved.out, store_.value(out_), partial.rows(0, rows.count));
  shard_.sum_rows(partial, rows, branch);
}

void AttentionLayer::backward(const Rows& rows, Tensor dbranch, const AttentionActivations& saved, const PositionTable& table,
                              const AttentionWorkspace& work, Tensor dinput) const {
  Backend& backend = shard_.backend();
  const AttentionShape shape = shard_.attention_shape(rows);
  const Tensor dy = dbranch.rows(0, rows.count);
  backend.linear_backward_weight(dy, saved.out, store_.gradient(out_));
  backend.linear_backward_input(dy, store_.value(out_), work.dout);
  backend.attention_backward(saved.q, saved.k, saved.v, saved.out, work.dout, saved.lse, shape, options(), work.dq, work.dk, work.dv,
                             work.scratch);
  Tensor dquery_gain, dkey_gain;
  if (shard_.model().qk_norm) {
    dquery_gain = store_.gradient(query_gain_);
    dkey_gain = store_.gradient(key_gain_);
  }
  const bool learnable = positions_.learnable();
  if (learnable) {
    backend.zero(work.dtable.cosine);
    backend.zero(work.dtable.sine);
  }
  backend.qkv_split_backward(work.dq, work.dk, work.dv, saved.qkv, shape, table, qk_norm(), saved.qk_rstd, work.dqkv, dquery_gain,
                             dkey_gain, learnable ? &work.dtable : nullptr);
  if (learnable) positions_.backward(store_, layer_, work.dtable);
  backend.linear_backward_weight(work.dqkv, saved.input.rows(0, rows.count), store_.fused_gradient(query_, 3));
  backend.linear_backward_input(work.dqkv, store_.fused_value(query_, 3), work.partial.rows(0, rows.count));
  shard_.sum_rows(work.partial, rows, dinput);
}

}  // namespace longwave
