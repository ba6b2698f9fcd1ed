#include "jobs/config/check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/position/position.h"

namespace longwave {
namespace {

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
  try {
    plan_positions(position, config.model.head_dim, config.model.kv_heads, config.model.context);
  } catch (const Error& error) {
    // The plan says "key: reason"; what it cannot know is where the key stands.
    const std::string message = error.what();
    const std::size_t colon = message.find(": ");
    if (error.code() != ExitCode::configuration || colon == std::string::npos) throw;
    throw refuse_setting(config, message.substr(0, colon), message.substr(colon + 2));
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
  const std::int64_t tensor = config.parallel.tensor;
  const auto divides = [&](const char* key, std::int64_t size) {
    if (size % tensor == 0) return;
    throw refuse_setting(config, "parallel.tensor", fmt::format("{} does not divide {} {}", tensor, key, size));
  };
  divides("model.heads", config.model.heads);
  divides("model.mlp_hidden", config.model.mlp_hidden);
  if (config.model.kv_heads % tensor != 0 && tensor % config.model.kv_heads != 0) {
    throw refuse_setting(
        config, "parallel.tensor",
        fmt::format("{} neither divides model.kv_heads {} nor is a multiple of it", tensor, config.model.kv_heads));
  }
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

// "1x6, 2x3": tensor x data, of the meshes that `ranks` ranks can form with this model.
std::string possible_meshes(const Config& config, std::int64_t ranks) {
  std::string meshes;
  for (std::int64_t tensor = 1; tensor <= ranks; ++tensor) {
    const ModelConfig& model = config.model;
    const bool splits = ranks % tensor == 0 && model.heads % tensor == 0 && model.mlp_hidden % tensor == 0 &&
                        (model.kv_heads % tensor == 0 || tensor % model.kv_heads == 0);
    if (splits) meshes += fmt::format("{}{}x{}", meshes.empty() ? "" : ", ", tensor, ranks / tensor);
  }
  return meshes;
}

void resolve(Config& config, const std::string& key, const std::string& rule) {
  for (Config::Origin& origin : config.origins) {
    // "auto" said by the user resolves too, and still says where auto was asked for.
    if (origin.key == key) origin.source += fmt::format(" ({})", rule);
  }
}

void fill_mesh(Config& config, std::int64_t ranks) {
  ParallelConfig& parallel = config.parallel;
  if (ranks % parallel.tensor != 0) {
    throw refuse_setting(config, "parallel.tensor",
                         fmt::format("{} does not divide {} ranks; possible meshes "
                                     "(tensor x data): {}",
                                     parallel.tensor, ranks, possible_meshes(config, ranks)));
  }
  if (parallel.data == 0) {
    parallel.data = ranks / parallel.tensor;
    resolve(config, "parallel.data", "ranks / tensor");
  } else if (parallel.tensor * parallel.data != ranks) {
    throw refuse_setting(
        config, "parallel.data",
        fmt::format("tensor {} x data {} is {} ranks, but there are {}; possible "
                    "meshes (tensor x data): {}; or say parallel.data=auto",
                    parallel.tensor, parallel.data, parallel.tensor * parallel.data, ranks, possible_meshes(config, ranks)));
  }
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
  for (const Config::Origin& origin : config.origins) {
    if (origin.key != key) continue;
    const bool placed = origin.source.rfind("default", 0) != 0 && origin.source.rfind("preset ", 0) != 0;
    if (placed) return config_error("{}: {}: {}", origin.source, key, reason);
    return config_error("{} ({}): {}", key, origin.source, reason);
  }
  return config_error("{}: {}", key, reason);
}

void check_config(const Config& config) {
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
