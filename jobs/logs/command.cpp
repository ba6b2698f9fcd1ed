// `longwave logs RUN [--rank N] [--follow]`: what every rank of a run did, or does.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "jobs/commands.h"
#include "jobs/logs/event_text.h"
#include "jobs/logs/log_reader.h"
#include "jobs/logs/rank_history.h"
#include "jobs/logs/run_life.h"
#include "jobs/run_directory/status.h"

namespace longwave {
namespace {

constexpr std::chrono::milliseconds poll_interval{200};

struct LogsArguments {
  std::string run;
  std::optional<int> rank;
  bool follow = false;
};

class LogsCommand {
 public:
  explicit LogsCommand(const LogsArguments& arguments) : arguments_(arguments), reader_(arguments.run) {
    if (arguments_.rank) check_rank(*arguments_.rank);
  }

  ExitCode run() {
    take_events(arguments_.rank.has_value());
    if (!arguments_.rank) print_table();
    if (!arguments_.follow) return ExitCode::done;
    RunLife life(arguments_.run);
    while (true) {
      // Asked before the last look, so that what was written until then is not missed.
      const bool over = life.has_ended();
      take_events(true);
      if (over) break;
      std::this_thread::sleep_for(poll_interval);
    }
    if (!arguments_.rank) print_table();
    return ExitCode::done;
  }

 private:
  void check_rank(int rank) const {
    const std::vector<int> ranks = reader_.ranks();
    if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) return;
    throw config_error("{}: no log of rank {}; there are those of ranks {}", arguments_.run, rank, fmt::join(ranks, ", "));
  }

  void take_events(bool print) {
    for (const auto& [rank, event] : reader_.next()) {
      histories_[rank].add(event);
      if (!print) continue;
      if (!arguments_.rank) fmt::print("rank {:<4} {}\n", rank, event_text(event));
      if (arguments_.rank == rank) fmt::print("{}\n", event_text(event));
    }
    std::fflush(stdout);
  }

  void print_table() {
    for (const HeartbeatRecord& heartbeat : read_heartbeats(arguments_.run)) histories_[heartbeat.rank].add(heartbeat);
    if (const std::optional<Status> status = read_status(arguments_.run)) {
      fmt::print("{}: {}, step {} of {}, attempt {}{}\n", arguments_.run, name_of(status->state), status->step, status->steps,
                 status->attempt, status->reason.empty() ? "" : "; " + status->reason);
    }
    fmt::print("{}", rank_table(histories_));
    for (const auto& [rank, history] : histories_) {
      for (const Json& problem : history.problems()) fmt::print("rank {}: {}\n", rank, event_text(problem));
    }
    std::fflush(stdout);
  }

  const LogsArguments arguments_;
  RunLogReader reader_;
  std::map<int, RankHistory> histories_;
};

}  // namespace

void add_logs_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<LogsArguments>();
  CLI::App* logs = app.add_subcommand("logs", "Show what every rank of a run did: step, phase, times, problems");
  logs->add_option("RUN", arguments->run, "Run directory")->required();
  logs->add_option("--rank", arguments->rank, "Print the events of this rank instead of the table");
  logs->add_flag("--follow", arguments->follow, "Go on with new events until the run ends");
  logs->callback([arguments, &command] { command.run = [arguments] { return LogsCommand(*arguments).run(); }; });
}

}  // namespace longwave
