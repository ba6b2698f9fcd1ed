// `longwave report RUN... -o FILE.html`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "jobs/commands.h"
#include "jobs/report/report.h"
#include "jobs/report/run_summary.h"
#include "jobs/report/verdict.h"

namespace longwave {

void add_report_command(CLI::App& app, Command& command) {
  struct Arguments {
    std::vector<std::string> runs;
    std::string output;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* report = app.add_subcommand("report", "Write one self-contained HTML file about one or several runs");
  report->add_option("RUN", arguments->runs, "Run directories; several are compared")->required();
  report->add_option("-o,--output", arguments->output, "The file to write; default: report.html in the only run directory");
  report->callback([arguments, &command] {
    if (arguments->output.empty() && arguments->runs.size() > 1) throw CLI::RequiredError("-o FILE.html, with several runs,");
    command.run = [arguments] {
      const std::string output = arguments->output.empty() ? arguments->runs.front() + "/report.html" : arguments->output;
      write_report(arguments->runs, output);
      fmt::print("{}\nreport: {}\n", summary_table(read_run_summaries(arguments->runs)), output);
      return ExitCode::done;
    };
  });
}

}  // namespace longwave
