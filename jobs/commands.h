// The subcommands of `longwave`. Each is one `add_<name>_command`, which declares its arguments; when the command line
// names it, parsing fills them and sets `command.run`, which main calls afterwards. So what goes wrong while parsing is a
// wrong command line (78), and what goes wrong later carries its own exit code.
//
//   void add_report_command(CLI::App& app, Command& command) {
//     auto arguments = std::make_shared<ReportArguments>();
//     CLI::App* report = app.add_subcommand("report", "Write one HTML file about one or several runs");
//     report->add_option("RUN", arguments->runs, "Run directories")->required();
//     report->callback([arguments, &command] { command.run = [arguments] { return run_report(*arguments); }; });
//   }
#pragma once

#include <functional>

#include "core/base/error.h"

namespace CLI {
class App;
}

namespace longwave {

struct Command {
  std::function<ExitCode()> run;
};

void add_train_command(CLI::App& app, Command& command);
void add_evaluate_command(CLI::App& app, Command& command);
void add_generate_command(CLI::App& app, Command& command);
void add_plan_command(CLI::App& app, Command& command);
void add_prepare_command(CLI::App& app, Command& command);
void add_checkpoint_command(CLI::App& app, Command& command);
void add_keys_command(CLI::App& app, Command& command);
void add_report_command(CLI::App& app, Command& command);
void add_preflight_command(CLI::App& app, Command& command);
void add_run_command(CLI::App& app, Command& command);
void add_sweep_command(CLI::App& app, Command& command);
void add_logs_command(CLI::App& app, Command& command);

}  // namespace longwave
