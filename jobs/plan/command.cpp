// `longwave plan CONFIG.yaml [key=value ...]`
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "jobs/commands.h"
#include "jobs/plan/plan.h"

namespace longwave {
namespace {

struct PlanArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::int64_t ranks = 1;
  bool json = false;
  bool no_timing = false;
};

ExitCode run_plan(const PlanArguments& arguments) {
  if (arguments.ranks < 1) throw config_error("--ranks: {} is out of range, must be at least 1", arguments.ranks);
  const Plan plan = make_plan(load_config(arguments.config, arguments.overrides), {arguments.ranks, !arguments.no_timing});
  fmt::print("{}", arguments.json ? plan_json(plan) : plan_text(plan));
  return ExitCode::done;
}

}  // namespace

void add_plan_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* plan = app.add_subcommand("plan", "Say what a job will do, need and take; writes nothing");
  plan->add_option("CONFIG", arguments->config, "Job file")->required();
  plan->add_option("OVERRIDES", arguments->overrides, "key=value, such as position.kind=rope");
  plan->add_option("--ranks", arguments->ranks, "Ranks the job will have (default 1)");
  plan->add_flag("--json", arguments->json, "As JSON");
  plan->add_flag("--no-timing", arguments->no_timing, "Without the two seconds of training that tell the time");
  plan->callback([arguments, &command] { command.run = [arguments] { return run_plan(*arguments); }; });
}

}  // namespace longwave
