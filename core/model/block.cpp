#include "core/model/block.h"

#include <fmt/format.h>

namespace longwave {
namespace {

std::string layer_prefix(std::int64_t layer) { return fmt::format("model.layers.{}.", layer); }

}  // namespace

Block::Block(const Shard& shard, ParameterStore& store, PositionTables& positions, std::int64_t layer)
    : shard_(shard), first_offset_(store.trained_count()),
      attention_norm_(shard, store, layer_prefix(layer) + "input_layernorm.weight"),
      attention_(shard, store, positions, layer),
      mlp_norm_(shard, store, layer_prefix(layer) + "post_attention_layernorm.weight"),
      mlp_(shard, store, layer_prefix(layer) + "mlp.") {}

void Block::plan(Arena& arena, const Rows& rows, Tensor residual, BlockActivations& saved, const Tensor* shared_qkv) const {
  const Shape local = {rows.local, shard_.model().width};
  const auto plan_norm = [&](NormActivations& norm, Tensor input) {
    norm.input = input;
    norm.rstd = arena.allocate(DType::f32, {rows.local});
    norm.output = arena.allocate(shard_.compute(), local);
    return shard_.gathered_like(arena, norm.output, rows);
  };
  saved.attention.input = plan_norm(saved.attention_norm, residual);
  attention_.plan(arena, rows, saved.attention, shared_qkv);
  saved.mlp.input = plan_norm(saved.mlp_norm, arena.allocate(shard_.compute(), local));
  mlp_.plan(arena, rows, saved.mlp);
}

void Block::plan_workspace(Arena& arena, const Rows& rows, BlockWorkspace& work) const {
  const Shape local = {rows.local, shard_.model().width};
  work.dnormed = arena.allocate(shard_.compute(), local);
  work.gradient = arena.allocate(shard_.compute(), local);
  work.gradient_full = shard_.gathered_like(arena, work.gradient, rows);
  attention_.plan_workspace(arena, rows, work.attention);
  work.mlp.dhidden = arena.allocate(shard_.compute(), {rows.count, shard_.hidden()});
  const bool split = shard_.group().sequence_parallel();
  work.attention.partial = work.mlp.partial = split ? work.partial : work.dnormed;
}

void Block::forward(const Rows& rows, Tensor previous, const BlockActivations& saved, const PositionTable& table,
                    const BlockWorkspace& work, Tensor next) const {
  const bool split = shard_.group().sequence_parallel();
  const Tensor middle = saved.mlp_norm.input;
  if (previous) {
    attention_norm_.add_forward(previous, saved.attention_norm);
  } else {
    attention_norm_.forward(saved.attention_norm);
  }
  shard_.gather_rows(saved.attention_norm.output, saved.attention.input);
  attention_.forward(rows, saved.attention, table, split ? work.partial : middle, middle);

  mlp_norm_.add_forward(saved.attention_norm.input, saved.mlp_norm);
  shard_.gather_rows(saved.mlp_norm.output, saved.mlp.input);
  mlp_.forward(rows, saved.mlp, split ? work.partial : next, next);
}

void Block::backward(const Rows& rows, const BlockActivations& saved, const PositionTable& table, const BlockWorkspace& work) const {
  shard_.gather_rows(work.gradient, work.gradient_full);
  mlp_.backward(rows, work.gradient_full, saved.mlp, work.mlp, work.dnormed);
  mlp_norm_.backward(work.dnormed, saved.mlp_norm, work.gradient);

  shard_.gather_rows(work.gradient, work.gradient_full);
  attention_.backward(rows, work.gradient_full, saved.attention, table, work.attention, work.dnormed);
  attention_norm_.backward(work.dnormed, saved.attention_norm, work.gradient);
}

}  // namespace longwave
