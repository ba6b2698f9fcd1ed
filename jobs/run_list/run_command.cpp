// `longwave run list|show|directory|ranks|guard|out-of-memory`: what a run directory says of itself, and what
// slurm/train.sbatch asks about one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/timestamp.h"
#include "jobs/commands.h"
#include "jobs/config/check.h"
#include "jobs/config/config.h"
#include "jobs/report/format.h"
#include "jobs/report/run_summary.h"
#include "jobs/report/text_table.h"
#include "jobs/run_directory/status.h"
#include "jobs/run_list/crash_loop.h"
#include "jobs/run_list/run_history.h"

namespace longwave {
namespace {

std::string age(const std::string& time) {
  const auto then = parse_timestamp(time);
  if (!then) return "-";
  return show_duration(std::chrono::duration<double>(std::chrono::system_clock::now() - *then).count());
}

ExitCode list_runs(const std::string& folder) {
  TextTable table({"run", "state", "step", "steps", "attempts", "loss", "checkpoint", "written", "last error"});
  for (const std::string& directory : find_runs(folder)) {
    const RunSummary run = read_run_summary(directory);
    if (!run.status) {
      table.add_row({directory, "unknown", "-", "-", "-", "-", "-", "-", run.missing.empty() ? "" : run.missing.front()});
      continue;
    }
    const Status& status = *run.status;
    table.add_row({directory, run.state(), fmt::format("{}", status.step), fmt::format("{}", status.steps),
                   fmt::format("{}", status.attempt), show_loss(run.final_loss()),
                   status.checkpoint.empty() ? "-" : status.checkpoint, age(status.time) + " ago", status.reason});
  }
  fmt::print("{}", table.str());
  return ExitCode::done;
}

std::string describe(const RunAttempt& attempt) {
  std::string line = fmt::format("attempt {}", attempt.number);
  if (!attempt.time.empty()) line += "  " + attempt.time;
  if (!attempt.slurm_job.empty()) {
    line += fmt::format("  Slurm job {}", attempt.slurm_job);
    if (attempt.slurm_restarts > 0) line += fmt::format(", restart {}", attempt.slurm_restarts);
  }
  if (!attempt.hosts.empty()) line += fmt::format("  {} ranks on {}", attempt.ranks, join_words(attempt.hosts));
  return line;
}

void warn_of_short_lead(const std::string& directory, double lead) {
  const StopTime needed = measured_stop_time(directory);
  if (needed.step + needed.save <= lead) return;
  fmt::print(
      "warning: the signal comes {:.0f} s before the limit, but the slowest step took {:.0f} s and the slowest save {:.0f} s; "
      "submit with --signal=B:USR1@{:.0f}\n",
      lead, needed.step, needed.save, 2 * (needed.step + needed.save));
}

ExitCode show_run(const std::string& directory, double lead) {
  const std::vector<RunAttempt> attempts = read_run_history(directory);
  const RunSummary run = read_run_summary(directory);
  for (const RunAttempt& attempt : attempts) {
    fmt::print("{}\n", describe(attempt));
    TextTable table({"time", "rank", "step", "phase", "event", "message"});
    for (const RunEvent& event : attempt.events) {
      table.add_row({event.time, fmt::format("{}", event.rank), fmt::format("{}", event.step), event.phase, event.name,
                     event.message});
    }
    if (!attempt.events.empty()) fmt::print("{}", table.str());
    fmt::print("\n");
  }
  if (run.status) {
    const Status& status = *run.status;
    fmt::print("state: {} at step {} of {}, {} ago on {}\n", run.state(), status.step, status.steps, age(status.time),
               status.host);
    fmt::print("last checkpoint: {}\n", status.checkpoint.empty() ? "none" : status.checkpoint);
    if (status.exit_code) fmt::print("exit code: {}\n", *status.exit_code);
    if (!status.reason.empty()) fmt::print("reason: rank {}, phase {}: {}\n", status.rank, status.phase, status.reason);
  }
  if (lead > 0) warn_of_short_lead(directory, lead);
  return ExitCode::done;
}

ExitCode guard_run(const std::string& directory, const std::string& job, int restarts) {
  const CrashLoop loop = find_crash_loop(directory, job, restarts);
  if (loop.reason.empty()) return ExitCode::done;
  stop_crash_loop(directory, loop);
  throw Error(ExitCode::lost, loop.reason);
}

void add_list(CLI::App& run, Command& command) {
  auto folder = std::make_shared<std::string>("runs");
  CLI::App* list = run.add_subcommand("list", "A line for every run: state, steps, attempts, loss, last checkpoint, last error");
  list->add_option("FOLDER", *folder, "Where the run directories are, at any depth; default: runs");
  list->callback([folder, &command] { command.run = [folder] { return list_runs(*folder); }; });
}

void add_show(CLI::App& run, Command& command) {
  auto directory = std::make_shared<std::string>();
  auto lead = std::make_shared<double>(0);
  CLI::App* show = run.add_subcommand("show", "Follow one run: attempts, Slurm jobs, hosts, signals, saves, resumes, errors");
  show->add_option("RUN", *directory, "Run directory")->required();
  show->add_option("--lead", *lead, "Seconds between Slurm's signal and the time limit; warns when step and save take longer")
      ->check(CLI::NonNegativeNumber);
  show->callback([=, &command] { command.run = [=] { return show_run(*directory, *lead); }; });
}

void add_directory(CLI::App& run, Command& command) {
  auto file = std::make_shared<std::string>();
  auto overrides = std::make_shared<std::vector<std::string>>();
  CLI::App* directory = run.add_subcommand("directory", "Print the run directory that a job file and overrides name");
  directory->add_option("CONFIG", *file, "Job file (YAML)")->required();
  directory->add_option("OVERRIDE", *overrides, "key=value");
  directory->callback([=, &command] {
    command.run = [=] {
      fmt::print("{}\n", load_config(*file, *overrides).run_directory());
      return ExitCode::done;
    };
  });
}

void add_ranks(CLI::App& run, Command& command) {
  auto file = std::make_shared<std::string>();
  auto overrides = std::make_shared<std::vector<std::string>>();
  auto most = std::make_shared<std::int64_t>(1);
  CLI::App* ranks = run.add_subcommand("ranks", "Print how many of so many ranks a job can be trained on; 0 when on none");
  ranks->add_option("CONFIG", *file, "Job file (YAML)")->required();
  ranks->add_option("OVERRIDE", *overrides, "key=value");
  ranks->add_option("--most", *most, "Ranks there are")->required()->check(CLI::PositiveNumber);
  ranks->callback([=, &command] {
    command.run = [=] {
      fmt::print("{}\n", most_fitting_ranks(load_config(*file, *overrides), *most));
      return ExitCode::done;
    };
  });
}

void add_guard(CLI::App& run, Command& command) {
  auto directory = std::make_shared<std::string>();
  auto job = std::make_shared<std::string>();
  auto restarts = std::make_shared<int>(0);
  CLI::App* guard = run.add_subcommand("guard", "Refuse (exit code 69) to start a run again that gets nowhere");
  guard->add_option("RUN", *directory, "Run directory")->required();
  guard->add_option("--job", *job, "SLURM_JOB_ID")->required();
  guard->add_option("--restarts", *restarts, "SLURM_RESTART_COUNT")->required()->check(CLI::NonNegativeNumber);
  guard->callback([=, &command] { command.run = [=] { return guard_run(*directory, *job, *restarts); }; });
}

void add_out_of_memory(CLI::App& run, Command& command) {
  auto directory = std::make_shared<std::string>();
  auto job = std::make_shared<std::string>();
  CLI::App* ended = run.add_subcommand("out-of-memory", "Record that a rank was killed for its memory, which it cannot itself");
  ended->add_option("RUN", *directory, "Run directory")->required();
  ended->add_option("--job", *job, "Slurm's name of the job")->required();
  ended->callback([=, &command] {
    command.run = [=] {
      const std::string cause = fmt::format(
          "out of memory: a rank of Slurm job {} was killed for using more than the job has; submit with a larger --mem, or set a "
          "smaller train.micro_batch (`longwave plan` says what a rank needs)",
          *job);
      record_out_of_memory(*directory, cause);
      fmt::print("longwave: {}\n", cause);
      return ExitCode::done;
    };
  });
}

}  // namespace

void add_run_command(CLI::App& app, Command& command) {
  CLI::App* run = app.add_subcommand("run", "Look at run directories");
  run->require_subcommand(1);
  add_list(*run, command);
  add_show(*run, command);
  add_directory(*run, command);
  add_ranks(*run, command);
  add_guard(*run, command);
  add_out_of_memory(*run, command);
}

}  // namespace longwave
