#include "core/model/mlp_layer.h"

#include "core/model/projection.h"

namespace longwave {

MlpLayer::MlpLayer(const Shard& shard, ParameterStore& store, const std::string& prefix) : shard_(shard), store_(store) {
  const ModelConfig& model = shard.model();
  const std::int64_t first = shard.group().rank() * shard.hidden();
  gate_ = add_projection(store, shard, prefix + "gate_proj.weight", {model.mlp_hidden, model.width}, Split::rows, first, shard.hidden());
  add_projection(store, shard, prefix + "up_proj.weight", {model.mlp_hidden, model.width}, Split::rows, first, shard.hidden(), 1, false);
  down_ = add_projection(store, shard, prefix + "down_proj.weight", {model.width, model.mlp_hidden}, Split::columns, first, shard.hidden());
}

void MlpLayer::plan(Arena& arena, const Rows& rows, MlpActivations& saved) const {
  saved.gate_up = arena.allocate(shard_.compute(), {rows.count, 2 * shard_.hidden()});
  saved.hidden = arena.allocate(shard_.compute(), {rows.count, shard_.hidden()});
}

void MlpLayer::forward(const Rows& rows, const MlpActivations& saved, Tensor partial, Tensor branch) const {
  Backend& backend = shard_.backend();
  backend.linear_swiglu_forward(saved.input.rows(0, rows.count), store_.fused_value(gate_, 2), saved.gate_up, saved.hidden);
  backend.linear_forward(saved.hidden, store_.value(down_), partial.rows(0, rows.count));
  shard_.sum_rows(partial, rows, branch);
}

void MlpLayer::backward(const Rows& rows, Tensor dbranch, const MlpActivations& saved, const MlpWorkspace& work, Tensor dinput) const {
  Backend& backend = shard_.backend();
  const Tensor dy = dbranch.rows(0, rows.count);
  backend.linear_backward_weight(dy, saved.hidden, store_.gradient(down_));
  backend.linear_swiglu_backward(dy, store_.value(down_), work.dhidden, saved.gate_up);
  backend.linear_backward_weight(saved.gate_up, saved.input.rows(0, rows.count), store_.fused_gradient(gate_, 2));
  backend.linear_backward_input(saved.gate_up, store_.fused_value(gate_, 2), work.partial.rows(0, rows.count));
  shard_.sum_rows(work.partial, rows, dinput);
}

}  // namespace longwave
