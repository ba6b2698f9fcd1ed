#include "jobs/generate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/random.h"
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
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(keep), order.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  if (keep == 1) return order.front();
  std::vector<double> shares(keep);
  double sum = 0;
  for (std::size_t i = 0; i < keep; ++i) {
    const double above = static_cast<double>(logits[static_cast<std::size_t>(order[i])]) - logits[static_cast<std::size_t>(order.front())];
    sum += shares[i] = std::exp(above / arguments.temperature);
  }
  double left = uniform * sum;
  for (std::size_t i = 0; i < keep; ++i) {
    left -= shares[i];
    if (left <= 0) return order[i];
  }
  return order[keep - 1];
}

}  // namespace

ExitCode run_generate(const GenerateArguments& arguments) {
  Config config = load_config(arguments.run + "/config.yaml", {"run.device=auto"});
  const auto tokenizer = open_tokenizer(config.data.tokenizer);
  if (tokenizer == nullptr) throw config_error("{} was trained on token ids without a tokenizer: there is no text to generate", arguments.run);
  ChosenDevice device = choose_device(config, 1);
  TensorGroup alone;
  Transformer model(config.model, config.position, {device.compute, config.run.seed, 0}, device.backend.get(), alone);
  read_weights(arguments.run + "/weights.safetensors", model, *device.backend);

  std::vector<std::int32_t> tokens = tokenizer->encode(arguments.prompt);
  if (tokens.empty()) tokens.push_back(tokenizer->end_of_document());
  const auto prompt = static_cast<std::int64_t>(tokens.size());
  model.prepare_evaluation(1, prompt + arguments.tokens);
  const RandomKey key(arguments.seed, "generate");
  std::vector<float> logits(static_cast<std::size_t>(config.model.vocabulary));
  for (std::int64_t i = 0; i < arguments.tokens; ++i) {
    model.next_token_logits(tokens.data(), prompt + i, logits.data());
    const std::int32_t next = choose(logits, arguments, key.uniform(static_cast<std::uint64_t>(i)));
    if (next == tokenizer->end_of_document()) break;
    tokens.push_back(next);
  }
  fmt::print("{}\n", tokenizer->decode(tokens));
  return ExitCode::done;
}

void add_generate_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* generate = app.add_subcommand("generate", "Continue a text with a trained run");
  generate->add_option("RUN", arguments->run, "Run directory")->required();
  generate->add_option("--prompt", arguments->prompt, "Text to continue");
  generate->add_option("--tokens", arguments->tokens, "At most so many new tokens")->capture_default_str()->check(CLI::PositiveNumber);
  generate->add_option("--temperature", arguments->temperature, "0 takes the most likely token")->capture_default_str()->check(CLI::NonNegativeNumber);
  generate->add_option("--top", arguments->top, "Sample among so many most likely tokens, 0 for all")->capture_default_str()->check(CLI::NonNegativeNumber);
  generate->add_option("--seed", arguments->seed, "Another seed, another text")->capture_default_str();
  generate->callback([arguments, &command] { command.run = [arguments] { return run_generate(*arguments); }; });
}

}  // namespace longwave
