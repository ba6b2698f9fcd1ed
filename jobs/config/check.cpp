#include "jobs/config/check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/position/position.h"
#include "parallel/mesh.h"

namespace longwave {
namespace {

// Puts the source of the key that `message` begins with in front of it.
Error place(const Config& config, const std::string& message) {
  const std::string key = message.substr(0, message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_."));
  const std::string bare = key.substr(0, key.find_last_not_of('.') + 1);
  for (const Config::Origin& origin : config.origins) {
    if (origin.key != bare) continue;
    const bool given = origin.source.rfind("default", 0) != 0 && origin.source.rfind("preset ", 0) != 0;
    if (given) return config_error("{}: {}", origin.source, message);
    return config_error("{} ({}){}", bare, origin.source, message.substr(bare.size()));
  }
  return config_error("{}", message);
}

// What other parts of the program refuse by the name of a key is refused here by its place too.
template <class Check>
void placed(const Config& config, Check check) {
  try {
    check();
  } catch (const Error& error) {
    if (error.code() != ExitCode::configuration) throw;
    throw place(config, error.what());
  }
}

constexpr std::int64_t byte_vocabulary = 257;  // 256 bytes and the end of a document

void check_model(const Config& config) {
  const ModelConfig& model = config.model;
  if (model.head_dim == 0) {
    throw refuse_setting(config, "model.head_dim",
                         fmt::format("width {} does not divide by heads {}; set model.head_dim, or "
                                     "width {}",
                                     model.width, model.heads, (model.width / model.heads + 1) * model.heads));
  }
  if (model.head_dim % 2 != 0) {
    throw refuse_setting(config, "model.head_dim",
                         fmt::format("{} is odd; positions turn pairs of components", model.head_dim));
  }
  if (model.heads % model.kv_heads != 0) {
    throw refuse_setting(config, "model.kv_heads", fmt::format("{} does not divide heads {}", model.kv_heads, model.heads));
  }
  if (config.data.tokenizer == "bytes" && model.vocabulary != 0 && model.vocabulary < byte_vocabulary) {
    throw refuse_setting(
        config, "model.vocabulary",
        fmt::format("{} is too small for data.tokenizer: bytes, which needs {}", model.vocabulary, byte_vocabulary));
  }
}

void check_position(const Config& config) {
  const PositionConfig& position = config.position;
  if (position.kind == PositionKind::fope && position.cap == PositionCap::quarter && config.model.head_dim % 4 != 0) {
    throw refuse_setting(config, "position.cap",
                         fmt::format("quarter needs model.head_dim to be a multiple of 4, it is {}", config.model.head_dim));
  }
  placed(config, [&] { plan_positions(position, config.model.head_dim, config.model.kv_heads, config.model.context); });
}

void check_run(const Config& config) {
  if (config.run.resume == Resume::never && config.run.resume_step != 0) {
    throw refuse_setting(config, "run.resume_step", "a step to go on from, and run.resume is never");
  }
}

void check_schedule(const Config& config) {
  const auto steps = static_cast<double>(config.train.steps);
  if (config.schedule.warmup > config.train.steps) {
    throw refuse_setting(config, "schedule.warmup",
                         fmt::format("{} is more than train.steps {}", config.schedule.warmup, config.train.steps));
  }
  if (config.schedule.kind == ScheduleKind::warmup_stable_decay &&
      static_cast<double>(config.schedule.warmup) + config.schedule.decay_share * steps > steps + 1) {
    throw refuse_setting(config, "schedule.decay",
                         fmt::format("{} of {} steps and a warm-up of {} are more than train.steps",
                                     config.schedule.decay_share, config.train.steps, config.schedule.warmup));
  }
}

void check_parallel(const Config& config) {
  // The mesh of the fewest ranks: what is wrong with it is wrong with every mesh.
  const ParallelConfig& parallel = config.parallel;
  const std::int64_t ranks = parallel.tensor * std::max<std::int64_t>(parallel.data, 1);
  placed(config, [&] { resolve_mesh(ranks, parallel.tensor, parallel.data, config.model, 0); });
  if (config.train.micro_batch > config.train.batch) {
    throw refuse_setting(config, "train.micro_batch",
                         fmt::format("{} is more than train.batch {}", config.train.micro_batch, config.train.batch));
  }
}

void check_evaluation(const Config& config) {
  if (config.evaluate.every > 0 && config.data.validation.empty()) {
    throw refuse_setting(config, "evaluate.every", "needs data.validation");
  }
}

void resolve(Config& config, const std::string& key, const std::string& rule) {
  for (Config::Origin& origin : config.origins) {
    // "auto" said by the user resolves too, and still says where auto was asked for.
    if (origin.key == key) origin.source += fmt::format(" ({})", rule);
  }
}

void fill_mesh(Config& config, std::int64_t ranks) {
  ParallelConfig& parallel = config.parallel;
  // The batch has its own check, which names the nearest batches.
  placed(config, [&] {
    const MeshShape mesh = resolve_mesh(ranks, parallel.tensor, parallel.data, config.model, 0);
    if (parallel.data == 0) resolve(config, "parallel.data", "ranks / tensor");
    parallel.data = mesh.data;
  });
}

void fill_micro_batch(Config& config) {
  TrainConfig& train = config.train;
  const std::int64_t ranks = config.parallel.data;
  const std::int64_t unit = ranks * std::max<std::int64_t>(train.micro_batch, 1);
  if (train.batch % unit != 0) {
    const std::int64_t below = train.batch / unit * unit;
    const std::string nearest = below > 0 ? fmt::format("{} or {}", below, below + unit) : fmt::format("{}", unit);
    const std::string micro = train.micro_batch > 0 ? fmt::format("micro_batch {} x ", train.micro_batch) : "";
    throw refuse_setting(
        config, "train.batch",
        fmt::format("{} is not a multiple of {}{} data ranks; nearest: {}", train.batch, micro, ranks, nearest));
  }
  if (train.micro_batch == 0) {
    train.micro_batch = train.batch / ranks;
    resolve(config, "train.micro_batch", "batch / data ranks");
  }
}

void fill_vocabulary(Config& config, std::int64_t tokenizer_vocabulary) {
  std::int64_t& vocabulary = config.model.vocabulary;
  if (vocabulary == 0 && tokenizer_vocabulary == 0) {
    throw refuse_setting(config, "model.vocabulary", "must be given where data.tokenizer is none");
  }
  if (vocabulary == 0) {
    vocabulary = tokenizer_vocabulary;
    resolve(config, "model.vocabulary", "the tokenizer's");
  } else if (vocabulary < tokenizer_vocabulary) {
    throw refuse_setting(
        config, "model.vocabulary",
        fmt::format("{} is less than the {} ids of tokenizer {}", vocabulary, tokenizer_vocabulary, config.data.tokenizer));
  }
}

}  // namespace

Error refuse_setting(const Config& config, const std::string& key, const std::string& reason) {
  return place(config, key + ": " + reason);
}

std::int64_t most_fitting_ranks(const Config& config, std::int64_t most) {
  const ParallelConfig& parallel = config.parallel;
  for (std::int64_t data = most / parallel.tensor; data > 0; --data) {
    const std::int64_t unit = data * std::max<std::int64_t>(config.train.micro_batch, 1);
    if ((parallel.data == 0 || parallel.data == data) && config.train.batch % unit == 0) return data * parallel.tensor;
  }
  return 0;
}

void check_config(const Config& config) {
  check_run(config);
  check_model(config);
  check_position(config);
  check_schedule(config);
  check_parallel(config);
  check_evaluation(config);
}

void finish_config(Config& config, std::int64_t ranks, std::int64_t tokenizer_vocabulary) {
  fill_mesh(config, ranks);
  fill_micro_batch(config);
  fill_vocabulary(config, tokenizer_vocabulary);
}

}  // namespace longwave
