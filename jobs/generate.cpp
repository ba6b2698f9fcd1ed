#include "jobs/generate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/random.h"
#include "core/base/safetensors.h"
#include "jobs/commands.h"
#include "jobs/dataset.h"
#include "jobs/device.h"
#include "jobs/weights.h"

namespace longwave {
namespace {

// One token from softmax(logits / temperature) over the `top` most likely, by one uniform number.
std::int32_t choose(const std::vector<float>& logits, const GenerateArguments& arguments, double uniform) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto keep = arguments.temperature == 0 ? 1
                    : arguments.top == 0       ? order.size()
                                               : std::min(order.size(), static_cast<std::size_t>(arguments.top));
  const auto more_likely = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(keep), order.end(), more_likely);
  if (keep == 1) return order.front();
  std::vector<double> shares(keep);
  double sum = 0;
  for (std::size_t i = 0; i < keep; ++i) {
    const double above =
        static_cast<double>(logits[static_cast<std::size_t>(order[i])]) - logits[static_cast<std::size_t>(order.front())];
    sum += shares[i] = std::exp(above / arguments.temperature);
  }
  double left = uniform * sum;
  for (std::size_t i = 0; i < keep; ++i) {
    left -= shares[i];
    if (left <= 0) return order[i];
  }
  return order[keep - 1];
}

// A trained run on one device.
struct TrainedRun {
  explicit TrainedRun(const std::string& run)
      : config(load_config(run + "/config.yaml", {"run.device=auto"})), tokenizer(open_tokenizer(config.data.tokenizer)) {
    if (tokenizer == nullptr) {
      throw config_error("{} was trained on token ids without a tokenizer: there is no text to read or write", run);
    }
    device = choose_device(config, 1);
    const TransformerOptions options{device.compute, config.run.seed, 0};
    model = std::make_unique<Transformer>(config.model, config.position, options, device.backend.get(), alone);
    read_weights(run + "/weights.safetensors", *model, *device.backend);
  }

  Config config;
  std::unique_ptr<Tokenizer> tokenizer;
  ChosenDevice device;
  TensorGroup alone;
  std::unique_ptr<Transformer> model;
};

void write_logits(TrainedRun& run, const std::vector<std::int32_t>& tokens, const std::string& path) {
  const auto length = static_cast<std::int64_t>(tokens.size());
  const std::int64_t vocabulary = run.config.model.vocabulary;
  std::vector<float> logits(static_cast<std::size_t>(length * vocabulary));
  run.model->prepare_evaluation(1, length);
  run.model->sequence_logits(tokens.data(), length, logits.data());
  SafetensorsWriter writer(path, {{"tokens", DType::i32, {length}}, {"logits", DType::f32, {length, vocabulary}}});
  writer.write("tokens", tokens.data(), tokens.size() * sizeof(std::int32_t));
  writer.write("logits", logits.data(), logits.size() * sizeof(float));
  writer.commit();
  fmt::print("logits of {} tokens -> {}\n", length, path);
}

void write_text(TrainedRun& run, std::vector<std::int32_t> tokens, const GenerateArguments& arguments) {
  const auto prompt = static_cast<std::int64_t>(tokens.size());
  run.model->prepare_evaluation(1, prompt + arguments.tokens);
  const RandomKey key(arguments.seed, "generate");
  std::vector<float> logits(static_cast<std::size_t>(run.config.model.vocabulary));
  for (std::int64_t i = 0; i < arguments.tokens; ++i) {
    run.model->next_token_logits(tokens.data(), prompt + i, logits.data());
    const std::int32_t next = choose(logits, arguments, key.uniform(static_cast<std::uint64_t>(i)));
    if (next == run.tokenizer->end_of_document()) break;
    tokens.push_back(next);
  }
  fmt::print("{}\n", run.tokenizer->decode(tokens));
}

}  // namespace

ExitCode run_generate(const GenerateArguments& arguments) {
  TrainedRun run(arguments.run);
  std::vector<std::int32_t> tokens = run.tokenizer->encode(arguments.prompt);
  if (tokens.empty()) tokens.push_back(run.tokenizer->end_of_document());
  if (arguments.logits.empty()) {
    write_text(run, std::move(tokens), arguments);
  } else {
    write_logits(run, tokens, arguments.logits);
  }
  return ExitCode::done;
}

void add_generate_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* generate = app.add_subcommand("generate", "Continue a text with a trained run");
  const auto add = [&](const char* name, auto& value, const char* meaning) {
    return generate->add_option(name, value, meaning)->capture_default_str();
  };
  generate->add_option("RUN", arguments->run, "Run directory")->required();
  generate->add_option("--prompt", arguments->prompt, "Text to continue");
  add("--tokens", arguments->tokens, "At most so many new tokens")->check(CLI::PositiveNumber);
  add("--temperature", arguments->temperature, "0 takes the most likely token")->check(CLI::NonNegativeNumber);
  add("--top", arguments->top, "Sample among so many most likely tokens, 0 for all")->check(CLI::NonNegativeNumber);
  add("--seed", arguments->seed, "Another seed, another text");
  generate->add_option("--logits", arguments->logits,
                       "Write the prompt's `tokens` [n] and their `logits` [n, vocabulary] to this safetensors file, no text");
  generate->callback([arguments, &command] { command.run = [arguments] { return run_generate(*arguments); }; });
}

}  // namespace longwave
