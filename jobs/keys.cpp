// `longwave keys`: every key a job file may hold.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "jobs/commands.h"
#include "jobs/config/config.h"

namespace longwave {

void add_keys_command(CLI::App& app, Command& command) {
  auto markdown = std::make_shared<bool>(false);
  CLI::App* keys = app.add_subcommand("keys", "List every key of a job file with its default, type and meaning");
  keys->add_flag("--markdown", *markdown, "As the tables of jobs/README.md");
  keys->callback([markdown, &command] {
    command.run = [markdown] {
      fmt::print("{}", describe_settings(*markdown));
      return ExitCode::done;
    };
  });
}

}  // namespace longwave
