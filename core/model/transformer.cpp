#include "core/model/transformer.h"

#include <algorithm>
#include <vector>

#include "core/backend/host_copy.h"
#include "core/backend/host_memory.h"
#include "core/model/embedding.h"
#include "core/model/pass.h"

namespace longwave {
namespace {

// Memory of the backend, given back when it goes.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Backend& backend, std::size_t bytes) : backend_(&backend), data_(backend.allocate(bytes)), bytes_(bytes) {}
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) backend_->release(data_);
  }
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void swap(DeviceMemory& other) {
    std::swap(backend_, other.backend_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  Backend* backend_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Position tables of one length with their memory; rebuilt when what they are made of changed.
struct Tables {
  TableSet set;
  DeviceMemory memory;
  bool current = false;
};

}  // namespace

struct Transformer::Implementation {
  Implementation(const ModelConfig& model, const PositionConfig& position, const TransformerOptions& chosen, Backend* backend,
                 TensorGroup& group)
      : options(chosen), shard(model, chosen.compute, backend, group), positions(shard, position), embedding(shard, store),
        blocks(make_blocks()), final_norm(shard, store, "model.norm.weight"),
        head(shard, store, embedding.parameter(), chosen.logits_chunk_rows) {}

  std::vector<Block> make_blocks() {
    positions.add_model_parameters(store);
    std::vector<Block> made;
    made.reserve(static_cast<std::size_t>(shard.model().layers));
    for (std::int64_t layer = 0; layer < shard.model().layers; ++layer) made.emplace_back(shard, store, positions, layer);
    first_norm_offset = store.trained_count();
    return made;
  }

  Pass plan_pass(Arena& arena, std::int64_t batch, std::int64_t length, bool training) const;
  void forward(const Pass& pass, const TableSet& tables) const;
  void backward(const Pass& pass, const TableSet& tables, GradientsReady ready, void* context);
  void build(Tables& tables, std::int64_t length, bool evaluating);
  void refresh(Tables& tables, bool evaluating);
  void start_totals() {
    if (training.loss.totals) shard.backend().zero(training.loss.totals);
    micro_batches = 0;
  }
  // Evaluation's buffers for this shape, over the memory prepared.
  Pass evaluation_pass(std::int64_t batch, std::int64_t length);
  Pass forward_sequence(const std::int32_t* tokens, std::int64_t length);

  TransformerOptions options;
  Shard shard;
  ParameterStore store;
  PositionTables positions;
  Embedding embedding;
  std::int64_t first_norm_offset = 0;
  std::vector<Block> blocks;
  Norm final_norm;
  LossHead head;

  DeviceMemory values, gradients, frozen, training_memory, evaluation_memory;
  Pass training;
  Tables training_tables, evaluation_tables;
  std::size_t micro_batches = 0;  // since zero_gradients: three marks each, before, between and after the passes
  HostMemory ones;                // weights of a micro-batch that has none
};

Pass Transformer::Implementation::plan_pass(Arena& arena, std::int64_t batch, std::int64_t length, bool is_training) const {
  Pass pass;
  pass.rows = shard.rows(batch, length);
  const Rows& rows = pass.rows;
  const DType compute = options.compute;
  const Shape local = {rows.local, shard.model().width};
  const Shape padded = {rows.padded, shard.model().width};
  pass.tokens = arena.allocate(DType::i32, {rows.count});
  pass.targets = arena.allocate(DType::i32, {rows.count});
  if (shard.group().sequence_parallel()) pass.work.partial = arena.allocate(compute, padded);

  Tensor shared_qkv;
  const bool share_qkv = !is_training || !blocks.front().attention().backward_needs_qkv();
  if (share_qkv) shared_qkv = arena.allocate(compute, {rows.count, shard.qkv_columns()});
  pass.blocks.resize(is_training ? blocks.size() : 1);
  for (BlockActivations& saved : pass.blocks) {
    blocks.front().plan(arena, rows, arena.allocate(compute, local), saved, share_qkv ? &shared_qkv : nullptr);
  }
  pass.final_norm.input = is_training ? arena.allocate(compute, local) : pass.blocks.front().attention_norm.input;
  pass.final_norm.rstd = arena.allocate(DType::f32, {rows.local});
  pass.final_norm.output = arena.allocate(compute, local);
  pass.hidden = shard.gathered_like(arena, pass.final_norm.output, rows);
  head.plan(arena, rows, pass.loss);
  if (is_training) {
    pass.weights = arena.allocate(DType::f32, {rows.count});
    blocks.front().plan_workspace(arena, rows, pass.work);
    pass.dhidden = shard.group().sequence_parallel() ? pass.work.partial : pass.work.dnormed;
  }
  return pass;
}

void Transformer::Implementation::forward(const Pass& pass, const TableSet& tables) const {
  const Tensor first = pass.block(0).attention_norm.input;
  embedding.forward(pass.rows, pass.tokens, shard.group().sequence_parallel() ? pass.work.partial : first, first);
  Tensor previous;
  for (std::size_t layer = 0; layer < blocks.size(); ++layer) {
    const BlockActivations& saved = pass.block(layer);
    blocks[layer].forward(pass.rows, previous, saved, tables.of_layer(static_cast<std::int64_t>(layer)), pass.work,
                          pass.residual_after(layer, blocks.size()));
    previous = saved.mlp_norm.input;
  }
  final_norm.add_forward(previous, pass.final_norm);
  shard.gather_rows(pass.final_norm.output, pass.hidden);
}

void Transformer::Implementation::backward(const Pass& pass, const TableSet& tables, GradientsReady ready, void* context) {
  const auto report = [&](std::int64_t begin) {
    if (ready != nullptr) ready(context, begin);
  };
  head.forward_backward(pass.rows, pass.hidden, pass.targets, pass.weights, pass.loss, pass.dhidden);
  shard.sum_rows(pass.dhidden, pass.rows, pass.work.dnormed);
  shard.backend().zero(pass.work.gradient);
  final_norm.backward(pass.work.dnormed, pass.final_norm, pass.work.gradient);
  report(first_norm_offset);
  for (std::size_t layer = blocks.size(); layer-- > 0;) {
    blocks[layer].backward(pass.rows, pass.block(layer), tables.of_layer(static_cast<std::int64_t>(layer)), pass.work);
    if (layer > 0) report(blocks[layer].first_offset());
  }
  shard.gather_rows(pass.work.gradient, pass.work.gradient_full);
  embedding.backward(pass.rows, pass.tokens, pass.work.gradient_full);
  report(0);
}

void Transformer::Implementation::build(Tables& tables, std::int64_t length, bool evaluating) {
  Arena counter;
  positions.plan(counter, length);
  if (counter.peak() > tables.memory.bytes()) {
    tables.memory = {};
    tables.memory = DeviceMemory(shard.backend(), counter.peak());
  }
  Arena arena(tables.memory.data(), tables.memory.bytes());
  tables.set = positions.plan(arena, length);
  tables.current = false;
  refresh(tables, evaluating);
}

void Transformer::Implementation::refresh(Tables& tables, bool evaluating) {
  if (tables.current) return;
  positions.build(store, tables.set, evaluating);
  tables.current = true;
}

Pass Transformer::Implementation::evaluation_pass(std::int64_t batch, std::int64_t length) {
  LONGWAVE_CHECK(length <= evaluation_tables.set.length, "prepared for {} tokens, asked for {}", evaluation_tables.set.length, length);
  refresh(evaluation_tables, true);
  Arena arena(evaluation_memory.data(), evaluation_memory.bytes());
  return plan_pass(arena, batch, length, false);
}

Pass Transformer::Implementation::forward_sequence(const std::int32_t* tokens, std::int64_t length) {
  const Pass pass = evaluation_pass(1, length);
  shard.backend().copy_from_host(pass.tokens, tokens);
  forward(pass, evaluation_tables.set);
  return pass;
}

Transformer::Transformer(const ModelConfig& model, const PositionConfig& position, const TransformerOptions& options,
                         Backend* backend, TensorGroup& group)
    : impl_(std::make_unique<Implementation>(model, position, options, backend, group)) {
  if (backend == nullptr) return;
  ParameterStore& store = impl_->store;
  impl_->values = DeviceMemory(*backend, static_cast<std::size_t>(store.trained_count()) * size_of(options.compute));
  if (store.frozen_bytes() > 0) impl_->frozen = DeviceMemory(*backend, store.frozen_bytes());
  store.attach({impl_->values.data(), options.compute, {store.trained_count()}}, {}, impl_->frozen.data());
}

Transformer::~Transformer() = default;

const ModelConfig& Transformer::config() const { return impl_->shard.model(); }
const PositionConfig& Transformer::position() const { return impl_->positions.config(); }
ParameterStore& Transformer::parameters() { return impl_->store; }
const ParameterStore& Transformer::parameters() const { return impl_->store; }

void Transformer::initialise() {
  Backend& backend = impl_->shard.backend();
  ParameterStore& store = impl_->store;
  for (std::size_t index = 0; index < store.parameters().size(); ++index) {
    const Parameter& parameter = store[index];
    if (parameter.initialisation == Initialisation::given) continue;
    upload(backend, initial_values(parameter, impl_->options.seed).data(), store.value(index));
  }
  impl_->positions.initialise(store, impl_->options.seed);
  parameters_loaded();
}

void Transformer::prepare_training(std::int64_t batch, std::int64_t length) {
  Backend& backend = impl_->shard.backend();
  ParameterStore& store = impl_->store;
  impl_->gradients = DeviceMemory(backend, static_cast<std::size_t>(store.trained_count()) * size_of(DType::f32));
  store.attach(store.values(), {impl_->gradients.data(), DType::f32, {store.trained_count()}}, impl_->frozen.data());

  Arena counter;
  impl_->plan_pass(counter, batch, length, true);
  impl_->training_memory = DeviceMemory(backend, counter.peak());
  Arena arena(impl_->training_memory.data(), impl_->training_memory.bytes());
  impl_->training = impl_->plan_pass(arena, batch, length, true);
  impl_->ones = HostMemory(backend, static_cast<std::size_t>(batch * length) * sizeof(float));
  std::fill_n(impl_->ones.as<float>(), batch * length, 1.0f);
  impl_->build(impl_->training_tables, length, false);
}

void Transformer::prepare_evaluation(std::int64_t batch, std::int64_t length) {
  Arena counter;
  impl_->plan_pass(counter, batch, length, false);
  if (counter.peak() > impl_->evaluation_memory.bytes()) {
    impl_->evaluation_memory = {};  // the old block goes before the larger one comes
    impl_->evaluation_memory = DeviceMemory(impl_->shard.backend(), counter.peak());
  }
  if (length != impl_->evaluation_tables.set.length) {
    impl_->build(impl_->evaluation_tables, length, true);
  }
}

MemoryPlan Transformer::plan_training(std::int64_t batch, std::int64_t length) const {
  MemoryPlan plan;
  const auto trained = static_cast<std::size_t>(impl_->store.trained_count());
  plan.parameters = trained * size_of(impl_->options.compute) + impl_->store.frozen_bytes();
  plan.gradients = trained * size_of(DType::f32);
  Arena activations, tables;
  impl_->plan_pass(activations, batch, length, true);
  impl_->positions.plan(tables, length);
  plan.activations = activations.peak();
  plan.tables = tables.peak();
  return plan;
}

void Transformer::accumulate(const std::int32_t* tokens, const std::int32_t* targets, const float* weights, GradientsReady ready,
                             void* context) {
  Backend& backend = impl_->shard.backend();
  const Pass& pass = impl_->training;
  LONGWAVE_CHECK(pass.rows.count > 0, "prepare_training comes first");
  impl_->refresh(impl_->training_tables, false);
  backend.copy_from_host(pass.tokens, tokens);
  backend.copy_from_host(pass.targets, targets);
  backend.copy_from_host(pass.weights, weights != nullptr ? weights : impl_->ones.as<float>());
  const std::size_t mark = 3 * impl_->micro_batches++;
  backend.mark(mark);
  impl_->forward(pass, impl_->training_tables.set);
  backend.mark(mark + 1);
  impl_->backward(pass, impl_->training_tables.set, ready, context);
  backend.mark(mark + 2);
}

Tensor Transformer::totals() const { return impl_->training.loss.totals; }

void Transformer::forward_backward(const std::int32_t* tokens, const std::int32_t* targets, const float* weights, LossTotals& totals,
                                   GradientsReady ready, void* context) {
  impl_->start_totals();
  accumulate(tokens, targets, weights, ready, context);
  double sums[2];
  impl_->shard.backend().copy_to_host(sums, this->totals());
  totals.weighted_loss += sums[0];
  totals.weight += sums[1];
}

PassTimes Transformer::pass_times() const {
  Backend& backend = impl_->shard.backend();
  PassTimes times;
  for (std::size_t mark = 0; mark < 3 * impl_->micro_batches; mark += 3) {
    times.forward += backend.seconds_between(mark, mark + 1);
    times.backward += backend.seconds_between(mark + 1, mark + 2);
  }
  return times;
}

void Transformer::zero_gradients() {
  impl_->shard.backend().zero(impl_->store.gradients());
  impl_->start_totals();
}

void Transformer::parameters_changed() {
  if (!impl_->positions.learnable()) return;
  parameters_loaded();
  // Now rather than in the next step, whose passes may be a record (Recorder).
  if (impl_->training.rows.count > 0) impl_->refresh(impl_->training_tables, false);
}

void Transformer::parameters_loaded() {
  impl_->training_tables.current = false;
  impl_->evaluation_tables.current = false;
}

void Transformer::evaluate(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t batch, std::int64_t length,
                           float* losses, std::int32_t* argmax) {
  Backend& backend = impl_->shard.backend();
  const Pass pass = impl_->evaluation_pass(batch, length);
  LONGWAVE_CHECK(targets != nullptr || losses == nullptr, "losses need targets");
  backend.copy_from_host(pass.tokens, tokens);
  backend.copy_from_host(pass.targets, targets != nullptr ? targets : tokens);
  impl_->forward(pass, impl_->evaluation_tables.set);
  impl_->head.forward(pass.rows, pass.hidden, pass.targets, pass.loss, argmax);
  if (losses != nullptr) backend.copy_to_host(losses, pass.loss.loss);
}

void Transformer::next_token_logits(const std::int32_t* tokens, std::int64_t length, float* logits) {
  const Pass pass = impl_->forward_sequence(tokens, length);
  impl_->head.logits(pass.hidden.rows(length - 1, length), pass.loss, logits);
}

void Transformer::sequence_logits(const std::int32_t* tokens, std::int64_t length, float* logits) {
  const Pass pass = impl_->forward_sequence(tokens, length);
  impl_->head.logits(pass.hidden.rows(0, length), pass.loss, logits);
}

void Transformer::set_scaling(PositionScaling scaling, double factor) {
  impl_->positions.set_scaling(scaling, factor);
  impl_->evaluation_tables.set.length = 0;  // the next prepare_evaluation builds them again
}

double Transformer::forward_operations_per_token(std::int64_t length) const {
  const ModelConfig& model = impl_->shard.model();
  const double query = static_cast<double>(model.heads * model.head_dim);
  const double key = static_cast<double>(model.kv_heads * model.head_dim);
  const double width = static_cast<double>(model.width);
  const double products = 2 * width * (2 * query + 2 * key + 3 * static_cast<double>(model.mlp_hidden));
  const double attention = 4 * query * static_cast<double>(length + 1) / 2;
  const double head = 2 * width * static_cast<double>(model.vocabulary);
  return static_cast<double>(model.layers) * (products + attention) + head;
}

}  // namespace longwave
