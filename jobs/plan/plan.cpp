#include "jobs/plan/plan.h"

#include <algorithm>
#include <fstream>

#include "core/model/transformer.h"
#include "jobs/dataset.h"
#include "jobs/device.h"
#include "jobs/plan/absent_group.h"
#include "parallel/data_parallel.h"

namespace longwave {
namespace {

std::string part_of(const std::string& name) {
  const auto holds = [&](const char* word) { return name.find(word) != std::string::npos; };
  if (holds("position.")) return "position";
  if (holds("embed_tokens")) return "embedding";
  if (holds("lm_head")) return "head";
  if (holds("norm")) return "norms";
  if (holds("self_attn")) return "attention";
  return "mlp";
}

void count_parameters(const ParameterStore& store, Plan& plan) {
  for (const char* part : {"embedding", "attention", "mlp", "norms", "head", "position"})
    plan.parameters.emplace_back(part, 0);
  for (const Parameter& parameter : store.parameters()) {
    const std::string part = part_of(parameter.name);
    const auto entry =
        std::find_if(plan.parameters.begin(), plan.parameters.end(), [&](const auto& p) { return p.first == part; });
    entry->second += parameter.global_shape.count();
  }
  plan.trained = store.logical_count(false);
  plan.frozen = store.logical_count(true) - plan.trained;
}

void count_memory(const Transformer& shard, DType compute, Plan& plan) {
  const ParallelConfig& parallel = plan.config.parallel;
  const MemoryPlan memory = shard.plan_training(plan.config.train.micro_batch, plan.config.model.context);
  plan.memory = {{"parameters", memory.parameters},
                 {"gradients", memory.gradients},
                 {"optimizer", DataParallel::plan_state_bytes(shard.parameters().trained_count(), compute, static_cast<int>(parallel.data),
                                                              parallel.shard_optimizer)},
                 {"activations", memory.activations},
                 {"position tables", memory.tables}};
  for (const auto& [kind, bytes] : plan.memory) plan.memory_total += bytes;
}

// Opens what the configuration names, as far as it is there, and returns the vocabulary.
std::int64_t look_at_data(const Config& config, Plan& plan) {
  try {
    const Dataset data(config.data, config.model.vocabulary);
    plan.data_tokens = data.train_tokens();
    return data.vocabulary();
  } catch (const Error& error) {
    plan.data_note = error.what();
    if (config.model.vocabulary != 0) return config.model.vocabulary;
    const auto tokenizer = open_tokenizer(config.data.tokenizer);
    if (tokenizer == nullptr) throw;
    return tokenizer->vocabulary();
  }
}

double count_evaluation(const Config& config, const Transformer& model) {
  double operations = 0;
  const auto add = [&](std::int64_t length, double sequences) {
    operations += model.forward_operations_per_token(length) * static_cast<double>(length) * sequences;
  };
  const EvaluateConfig& evaluate = config.evaluate;
  if (!config.data.validation.empty()) {
    for (const std::int64_t length : evaluate.lengths)
      add(length, static_cast<double>(std::max(evaluate.tokens / length, std::int64_t{1})));
  }
  const double prompts = static_cast<double>(evaluate.passkey.trials) * static_cast<double>(evaluate.passkey.depths.size());
  for (const std::int64_t length : evaluate.passkey.lengths) add(length, prompts);
  return operations;
}

// Bytes that can be had without swapping; 0 where the system does not say.
std::size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::size_t kibibytes = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

void measure(const PlanOptions& options, Plan& plan) {
  if (!options.calibrate) {
    plan.measure_note = "not measured: --no-timing";
    return;
  }
  const std::size_t available = available_memory();
  const std::size_t needed = plan.memory_total * static_cast<std::size_t>(ranks_on_this_node(plan.config));
  if (available != 0 && needed > available) {
    plan.measure_note = fmt::format("not measured: this machine has {:.1f} GiB left and the ranks need {:.1f} GiB",
                                    static_cast<double>(available) / (1 << 30), static_cast<double>(needed) / (1 << 30));
    return;
  }
  plan.measured = calibrate(plan.config);
}

}  // namespace

double Plan::evaluation_seconds() const {
  // Tensor shards and data ranks alike share the evaluation.
  return evaluation_operations / (measured->operations_per_second * static_cast<double>(ranks));
}

Plan make_plan(Config config, const PlanOptions& options) {
  Plan plan;
  plan.ranks = options.ranks;
  finish_config(config, options.ranks, look_at_data(config, plan));
  const ChosenDevice device = choose_device(config, 1);
  plan.device = device.note;
  plan.config = std::move(config);

  TensorGroup alone;
  const TransformerOptions model_options{device.compute, plan.config.run.seed, 0};
  const Transformer whole(plan.config.model, plan.config.position, model_options, nullptr, alone);
  count_parameters(whole.parameters(), plan);
  plan.forward_operations_per_token = whole.forward_operations_per_token(plan.config.model.context);
  plan.evaluation_operations = count_evaluation(plan.config, whole);

  AbsentGroup group(static_cast<int>(plan.config.parallel.tensor), plan.config.parallel.sequence);
  const Transformer shard(plan.config.model, plan.config.position, model_options, nullptr, group);
  count_memory(shard, device.compute, plan);
  plan.tokens_per_step = plan.config.train.batch * plan.config.model.context;
  plan.tokens = plan.tokens_per_step * plan.config.train.steps;
  measure(options, plan);
  return plan;
}

}  // namespace longwave
