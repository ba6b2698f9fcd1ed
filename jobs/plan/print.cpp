// A plan for a person, and for a program.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "jobs/plan/plan.h"
#include "jobs/report/format.h"

namespace longwave {
namespace {

std::string grouped(std::int64_t number) {
  if (number < 1000) return fmt::format("{}", number);
  return fmt::format("{},{:03}", grouped(number / 1000), number % 1000);
}

std::string mebibytes(std::size_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20)); }

std::string parameter_lines(const Plan& plan) {
  std::string text = "Parameters\n";
  for (const auto& [part, count] : plan.parameters) {
    if (count > 0)
      text += fmt::format("  {:<18}{:>16}{}\n", part, grouped(count),
                          part == "position" && plan.frozen == count ? "  frozen" : "");
  }
  return text + fmt::format("  {:<18}{:>16}\n", "trained", grouped(plan.trained));
}

std::string memory_lines(const Plan& plan) {
  const Config& config = plan.config;
  std::string text =
      fmt::format("Memory of a rank, MiB (micro-batches of {} x {})\n", config.train.micro_batch, config.model.context);
  for (const auto& [kind, bytes] : plan.memory) text += fmt::format("  {:<18}{:>16}\n", kind, mebibytes(bytes));
  return text + fmt::format("  {:<18}{:>16}\n", "total", mebibytes(plan.memory_total));
}

std::string work_lines(const Plan& plan) {
  const Config& config = plan.config;
  const double forward = plan.forward_operations_per_token / 1e6;
  std::string text = fmt::format(
      "Work\n"
      "  operations a token  {:.2f} M forward, {:.2f} M in training: 2 for each weight of a matrix product and\n"
      "                      4 * heads * head_dim * (context + 1)/2 a layer for causal attention; backward is twice that\n"
      "  steps               {} of {} sequences of {} tokens: {} tokens a step, {} in all\n",
      forward, 3 * forward, grouped(config.train.steps), config.train.batch, config.model.context,
      grouped(plan.tokens_per_step), grouped(plan.tokens));
  if (!plan.data_tokens) return text + fmt::format("  training data       not there yet: {}\n", plan.data_note);
  return text + fmt::format("  training data       {} tokens, {:.2f} epochs\n", grouped(*plan.data_tokens),
                            static_cast<double>(plan.tokens) / static_cast<double>(*plan.data_tokens));
}

std::string time_lines(const Plan& plan) {
  if (!plan.measured) return fmt::format("Time\n  {}\n", plan.measure_note);
  const Calibration& measured = *plan.measured;
  return fmt::format(
      "Time, from two seconds of training here ({} of {} ranks side by side, micro-batches of {})\n"
      "  a step              {:.3f} s, {} tokens/s, {:.1f} GFLOP/s a rank\n"
      "  training            {}\n"
      "  evaluation          {}, by its operations at the same rate\n"
      "  not included        starting, communication, checkpoints\n",
      measured.ranks_at_once, plan.ranks, measured.sequences, measured.seconds_per_step,
      show_count(measured.tokens_per_second), measured.operations_per_second / 1e9,
      show_duration(plan.training_seconds()), show_duration(plan.evaluation_seconds()));
}

}  // namespace

std::string plan_text(const Plan& plan) {
  const ParallelConfig& parallel = plan.config.parallel;
  return fmt::format("# {} rank{}: tensor {} x data {}; {}\n{}\n{}\n{}\n{}\n{}", plan.ranks, plan.ranks == 1 ? "" : "s",
                     parallel.tensor, parallel.data, plan.device, to_yaml(plan.config, true), parameter_lines(plan),
                     memory_lines(plan), work_lines(plan), time_lines(plan));
}

std::string plan_json(const Plan& plan) {
  using Json = nlohmann::ordered_json;
  Json configuration = Json::object();
  for (const ResolvedSetting& setting : resolved_settings(plan.config)) {
    configuration[setting.key] = {{"value", setting.value}, {"source", setting.source}};
  }
  Json parameters = Json::object(), memory = Json::object();
  for (const auto& [part, count] : plan.parameters) parameters[part] = count;
  parameters["trained"] = plan.trained;
  parameters["frozen"] = plan.frozen;
  for (const auto& [kind, bytes] : plan.memory) memory[kind] = bytes;
  memory["total"] = plan.memory_total;

  const bool timed = plan.measured.has_value();
  const Json json = {
      {"ranks", plan.ranks},
      {"tensor", plan.config.parallel.tensor},
      {"data", plan.config.parallel.data},
      {"device", plan.device},
      {"configuration", configuration},
      {"parameters", parameters},
      {"forward_operations_per_token", plan.forward_operations_per_token},
      {"training_operations_per_token", 3 * plan.forward_operations_per_token},
      {"memory_bytes", memory},
      {"steps", plan.config.train.steps},
      {"tokens_per_step", plan.tokens_per_step},
      {"tokens", plan.tokens},
      {"data_tokens", plan.data_tokens ? Json(*plan.data_tokens) : Json(nullptr)},
      {"seconds_per_step", timed ? Json(plan.measured->seconds_per_step) : Json(nullptr)},
      {"tokens_per_second", timed ? Json(plan.measured->tokens_per_second) : Json(nullptr)},
      {"training_seconds", timed ? Json(plan.training_seconds()) : Json(nullptr)},
      {"evaluation_seconds", timed ? Json(plan.evaluation_seconds()) : Json(nullptr)},
  };
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace longwave
