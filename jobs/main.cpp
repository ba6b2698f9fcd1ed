// `longwave`: one program, a subcommand per job. Whatever goes wrong ends in one line on standard error and a documented
// exit code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "core/base/error.h"
#include "jobs/commands.h"
#include "jobs/version.h"

namespace longwave {
namespace {

int fail(ExitCode code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  fmt::print(stderr, "longwave: {}\n", message);
  return static_cast<int>(code);
}

int parse_and_run(int argc, char** argv) {
  CLI::App app{"Longwave trains language models and measures how they do past their training length.", "longwave"};
  app.set_version_flag("--version", fmt::format("longwave {} ({})", version(), commit()));
  app.require_subcommand(1);
  app.footer("Configuration keys: longwave keys. Exit codes and files: jobs/README.md.\n");

  Command command;
  add_prepare_command(app, command);
  add_plan_command(app, command);
  add_train_command(app, command);
  add_evaluate_command(app, command);
  add_report_command(app, command);
  add_preflight_command(app, command);
  add_run_command(app, command);
  add_sweep_command(app, command);
  add_logs_command(app, command);
  add_generate_command(app, command);
  add_checkpoint_command(app, command);
  add_keys_command(app, command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    return fail(ExitCode::configuration, fmt::format("{}; see longwave --help", error.what()));
  }
  return static_cast<int>(command.run());
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) {
  using longwave::ExitCode;
  try {
    return longwave::parse_and_run(argc, argv);
  } catch (const longwave::Error& error) {
    return longwave::fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return longwave::fail(ExitCode::bug, "internal error: out of memory; see `longwave plan` for what a run needs");
  } catch (const std::exception& error) {
    return longwave::fail(ExitCode::bug, fmt::format("internal error: {}", error.what()));
  }
}
