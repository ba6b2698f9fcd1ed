#include "core/model/position_tables.h"

#include <fmt/format.h>

#include "core/backend/host_copy.h"

namespace longwave {

PositionTables::PositionTables(const Shard& shard, const PositionConfig& config)
    : shard_(shard), config_(config),
      plan_(plan_positions(config, shard.model().head_dim, shard.model().kv_heads, shard.model().context)) {}

void PositionTables::add_model_parameters(ParameterStore& store) {
  if (!plan_.active()) return;
  Parameter frequencies;
  frequencies.name = "model.position.frequencies";
  frequencies.global_shape = frequencies.shape = {static_cast<std::int64_t>(plan_.frequencies.size())};
  frequencies.frozen = true;
  frequencies.replicas = shard_.group().size();
  frequencies.initialisation = Initialisation::given;
  frequencies.dtype = DType::f64;
  frequencies_ = store.add(std::move(frequencies));
  if (plan_.has_coefficients && !per_layer()) coefficients_.push_back(add_coefficients(store, "model.position."));
}

void PositionTables::add_layer_parameters(ParameterStore& store, std::int64_t layer) {
  if (per_layer()) coefficients_.push_back(add_coefficients(store, fmt::format("model.layers.{}.self_attn.position.", layer)));
}

PositionTables::Coefficients PositionTables::add_coefficients(ParameterStore& store, const std::string& prefix) const {
  Parameter matrix;  // one [D, d] a KV head
  matrix.global_shape = {shard_.model().kv_heads, static_cast<std::int64_t>(plan_.frequencies.size()), plan_.columns};
  matrix.shape = matrix.global_shape;
  matrix.shape.extent[0] = shard_.kv_heads();
  matrix.split = Split::rows;
  matrix.begin = shard_.first_kv_head();
  matrix.end = matrix.begin + shard_.kv_heads();
  matrix.frozen = !config_.learnable;
  matrix.replicas = shard_.kv_replicas();
  matrix.initialisation = Initialisation::given;
  matrix.dtype = matrix.frozen ? DType::f32 : shard_.compute();
  Coefficients added;
  matrix.name = prefix + "cosine";
  added.cosine = store.add(matrix);
  matrix.name = prefix + "sine";
  added.sine = store.add(matrix);
  return added;
}

void PositionTables::initialise(ParameterStore& store, std::uint64_t seed) const {
  if (!plan_.active()) return;
  Backend& backend = shard_.backend();
  backend.copy_from_host(store.value(frequencies_), plan_.frequencies.data());
  for (std::size_t layer = 0; layer < coefficients_.size(); ++layer) {
    for (const auto& [kind, index] : {std::pair{"cosine", coefficients_[layer].cosine}, {"sine", coefficients_[layer].sine}}) {
      const std::vector<float> drawn = draw_coefficients(plan_, config_, seed, static_cast<std::int64_t>(layer), kind,
                                                         shard_.first_kv_head(), shard_.kv_heads());
      upload(backend, drawn.data(), store.value(index));
    }
  }
}

PositionTable PositionTables::plan_table(Arena* arena, std::int64_t length) const {
  PositionTable table;
  const Shape shape = {plan_.has_coefficients ? shard_.kv_heads() : 1, length, plan_.columns};
  table.cosine = arena != nullptr ? arena->allocate(DType::f32, shape) : Tensor(nullptr, DType::f32, shape);
  table.sine = arena != nullptr ? arena->allocate(DType::f32, shape) : Tensor(nullptr, DType::f32, shape);
  table.tail_cosine = plan_.tail_cosine;
  table.tail_sine = plan_.tail_sine;
  return table;
}

TableSet PositionTables::plan(Arena& arena, std::int64_t length) const {
  TableSet set;
  set.length = length;
  if (!plan_.active()) {
    set.tables.emplace_back();
    return set;
  }
  const std::int64_t count = per_layer() ? shard_.model().layers : 1;
  Arena tables;
  for (std::int64_t i = 0; i < count; ++i) plan_table(&tables, length);
  // A plan without a device has tables. Learnable coefficients need their tables' gradient, so these are made too.
  set.in_memory = learnable() || !shard_.has_backend() || tables.peak() <= shard_.backend().position_table_limit();
  for (std::int64_t i = 0; i < count; ++i) set.tables.push_back(plan_table(set.in_memory ? &arena : nullptr, length));
  const auto kept = static_cast<std::int64_t>(plan_.frequencies.size());
  set.frequencies = arena.allocate(DType::f64, {kept});
  if (learnable() && shard_.compute() != DType::f32) {
    set.cosine_coefficients = arena.allocate(DType::f32, {shard_.kv_heads(), kept, plan_.columns});
    set.sine_coefficients = arena.allocate(DType::f32, {shard_.kv_heads(), kept, plan_.columns});
  }
  return set;
}

Tensor PositionTables::as_fp32(Tensor value, Tensor scratch) const {
  if (value.dtype == DType::f32) return value;
  shard_.backend().copy(value, scratch);
  return scratch;
}

void PositionTables::build(const ParameterStore& store, TableSet& set, bool evaluating) const {
  if (!plan_.active()) return;
  Backend& backend = shard_.backend();
  Tensor frequencies = store.value(frequencies_);
  PositionPlan plan = plan_;
  if (evaluating && config_.scaling != PositionScaling::none) {
    backend.copy_to_host(plan.frequencies.data(), frequencies);
    plan = scale_positions(plan, config_, shard_.model().head_dim, shard_.model().context, set.length);
    backend.copy_from_host(set.frequencies, plan.frequencies.data());
    frequencies = set.frequencies;
  }
  for (std::size_t i = 0; i < set.tables.size(); ++i) {
    Tensor cosine, sine;
    if (plan.has_coefficients) {
      const Coefficients& matrices = coefficients_of(static_cast<std::int64_t>(i));
      cosine = as_fp32(store.value(matrices.cosine), set.cosine_coefficients);
      sine = as_fp32(store.value(matrices.sine), set.sine_coefficients);
    }
    if (set.in_memory) {
      backend.position_table(frequencies, cosine, sine, plan.table_scale, set.tables[i]);
    } else {
      set.tables[i].series = {frequencies, cosine, sine, plan.table_scale};
    }
    set.tables[i].tail_cosine = plan.tail_cosine;  // YaRN's temperature reaches the constant pairs too
    set.tables[i].tail_sine = plan.tail_sine;
  }
}

PositionTable PositionTables::plan_gradient(Arena& arena, std::int64_t length) const {
  return learnable() ? plan_table(&arena, length) : PositionTable{};
}

void PositionTables::backward(ParameterStore& store, std::int64_t layer, const PositionTable& dtable) const {
  const Coefficients& matrices = coefficients_of(layer);
  shard_.backend().position_table_backward(store.value(frequencies_), dtable, store.gradient(matrices.cosine),
                                           store.gradient(matrices.sine));
}

void PositionTables::set_scaling(PositionScaling scaling, double factor) {
  config_.scaling = scaling;
  config_.scaling_factor = factor;
}

}  // namespace longwave
