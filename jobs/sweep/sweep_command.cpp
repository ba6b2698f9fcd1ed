// `longwave sweep list|status|report|cell|pending|submitted SWEEP.yaml`: a grid of runs, for people and for slurm/sweep.sbatch.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/timestamp.h"
#include "jobs/commands.h"
#include "jobs/report/format.h"
#include "jobs/report/report.h"
#include "jobs/report/run_summary.h"
#include "jobs/report/seeds.h"
#include "jobs/report/text_table.h"
#include "jobs/report/verdict.h"
#include "jobs/run_directory/provenance.h"
#include "jobs/run_directory/status.h"
#include "jobs/sweep/slurm_states.h"
#include "jobs/sweep/sweep_file.h"

namespace longwave {
namespace {

bool is_done(const SweepCell& cell) {
  const std::optional<Status> status = read_status(cell.run_directory);
  return status && status->state == RunState::done;
}

bool has_begun(const SweepCell& cell) { return std::filesystem::exists(cell.run_directory + "/status.json"); }

// A line for every array submitted: {"time", "array"}.
std::string submissions_path(const Sweep& sweep) { return sweep.directory + "/submissions.jsonl"; }

std::vector<std::string> submitted_arrays(const Sweep& sweep) {
  std::vector<std::string> arrays;
  if (!std::filesystem::exists(submissions_path(sweep))) return arrays;
  for (const Json& line : read_json_lines(submissions_path(sweep))) {
    read_fields(line, submissions_path(sweep), [&](const Json& json) { arrays.push_back(json.at("array").get<std::string>()); });
  }
  return arrays;
}

ExitCode list_cells(const Sweep& sweep) {
  TextTable table({"task", "cell", "run directory", "overrides"});
  for (std::size_t task = 0; task < sweep.cells.size(); ++task) {
    const SweepCell& cell = sweep.cells[task];
    table.add_row({fmt::format("{}", task), cell.name, cell.run_directory, fmt::format("{}", fmt::join(cell.overrides, " "))});
  }
  fmt::print("{}", table.str());
  return ExitCode::done;
}

// The SLURM_JOB_ID of a cell's last attempt; "" when it has none.
std::string last_job(const SweepCell& cell) {
  if (!std::filesystem::exists(cell.run_directory + "/provenance.json")) return "";
  std::string job;
  read_fields(read_provenance(cell.run_directory), cell.run_directory + "/provenance.json", [&](const Json& json) {
    if (const Json slurm = json.at("slurm"); slurm.is_object()) job = slurm.value("job_id", std::string());
  });
  return job;
}

// By task. What neither squeue nor sacct knows as a task of an array, the list of ended jobs may.
std::map<std::int64_t, SlurmState> states_of_cells(const Sweep& sweep) {
  std::map<std::int64_t, SlurmState> states = slurm_states(submitted_arrays(sweep));
  std::map<std::int64_t, std::string> jobs;
  std::vector<std::string> unknown;
  for (std::size_t task = 0; task < sweep.cells.size(); ++task) {
    const auto key = static_cast<std::int64_t>(task);
    if (states.count(key) != 0 || is_done(sweep.cells[task])) continue;
    if (jobs[key] = last_job(sweep.cells[task]); !jobs[key].empty()) unknown.push_back(jobs[key]);
  }
  const std::map<std::string, std::string> ended = completion_states(unknown);
  for (const auto& [task, job] : jobs) {
    if (const auto found = ended.find(job); found != ended.end()) states.emplace(task, SlurmState{job, found->second});
  }
  return states;
}

// The run's own word where Slurm has none: a sweep that ran without Slurm, or long ago. To Slurm, a job whose step was killed for
// its memory has failed.
std::string state_of(const RunSummary* run, const SlurmState* slurm) {
  if (run != nullptr && run->state() == "done") return "DONE";
  const bool out_of_memory = run != nullptr && run->status && run->status->exit_code == out_of_memory_code;
  if (out_of_memory && (slurm == nullptr || slurm->state == "FAILED")) return "OUT_OF_MEMORY";
  if (slurm != nullptr) return slurm->state == "COMPLETED" ? "STOPPED" : slurm->state;
  if (run == nullptr) return "NOT SUBMITTED";
  std::string state = run->state();
  std::transform(state.begin(), state.end(), state.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return state;
}

ExitCode show_status(const Sweep& sweep) {
  const std::map<std::int64_t, SlurmState> slurm = states_of_cells(sweep);
  TextTable table({"task", "cell", "state", "job", "step", "steps", "loss", "checkpoint", "last error"});
  std::map<std::string, int> counts;
  for (std::size_t task = 0; task < sweep.cells.size(); ++task) {
    const SweepCell& cell = sweep.cells[task];
    const auto found = slurm.find(static_cast<std::int64_t>(task));
    std::optional<RunSummary> run;
    if (has_begun(cell)) run = read_run_summary(cell.run_directory);
    const std::string state = state_of(run ? &*run : nullptr, found != slurm.end() ? &found->second : nullptr);
    ++counts[state];
    const Status status = run && run->status ? *run->status : Status{};
    table.add_row({fmt::format("{}", task), cell.name, state, found != slurm.end() ? found->second.job : "-",
                   run ? fmt::format("{}", status.step) : "-", run ? fmt::format("{}", status.steps) : "-",
                   run ? show_loss(run->final_loss()) : "-", status.checkpoint.empty() ? "-" : status.checkpoint, status.reason});
  }
  std::vector<std::string> words;
  for (const auto& [state, count] : counts) words.push_back(fmt::format("{} {}", count, state));
  fmt::print("{}{} cells: {}\n", table.str(), sweep.cells.size(), join_words(words));
  return ExitCode::done;
}

// A cell that failed is missing from the report, and said to be.
ExitCode write_sweep_report(const Sweep& sweep, const std::string& output) {
  std::vector<std::string> runs, without;
  for (const SweepCell& cell : sweep.cells) {
    if (has_begun(cell)) {
      runs.push_back(cell.run_directory);
    } else {
      without.push_back(cell.name);
    }
  }
  if (runs.empty()) throw data_error("{}: no cell of the sweep has a run directory yet", sweep.directory);
  const std::string path = output.empty() ? sweep.directory + "/report.html" : output;
  write_report(runs, path);
  const std::vector<RunSummary> summaries = read_run_summaries(runs);
  fmt::print("{}\n", summary_table(summaries));
  const std::vector<RunSummary> averages = average_seeds(summaries);
  if (averages.size() < summaries.size()) fmt::print("Means over seeds:\n{}\n", summary_table(averages));
  if (!without.empty()) fmt::print("without a run: {}\n", join_words(without));
  fmt::print("report: {}\n", path);
  return ExitCode::done;
}

// For `sbatch --array`: "0,3-5"; nothing when all are done.
ExitCode print_pending(const Sweep& sweep) {
  std::vector<std::string> ranges;
  for (std::size_t first = 0; first < sweep.cells.size(); ++first) {
    if (is_done(sweep.cells[first])) continue;
    std::size_t last = first;
    while (last + 1 < sweep.cells.size() && !is_done(sweep.cells[last + 1])) ++last;
    ranges.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
    first = last;
  }
  if (!ranges.empty()) fmt::print("{}\n", fmt::join(ranges, ","));
  return ExitCode::done;
}

ExitCode print_cell(const std::string& path, const Sweep& sweep, std::size_t task) {
  if (task >= sweep.cells.size()) throw config_error("{}: no task {}; the sweep has {} cells", path, task, sweep.cells.size());
  fmt::print("{}\n{}\n", sweep.job, fmt::join(sweep.cells[task].overrides, "\n"));
  return ExitCode::done;
}

ExitCode note_submission(const Sweep& sweep, const std::string& array) {
  make_directories(sweep.directory);
  JsonLines lines(submissions_path(sweep));
  lines.append({{"time", timestamp()}, {"array", array}});
  lines.sync();
  return ExitCode::done;
}

CLI::App* add(CLI::App& sweep, const char* name, const char* meaning, const std::shared_ptr<std::string>& file) {
  CLI::App* command = sweep.add_subcommand(name, meaning);
  command->add_option("SWEEP", *file, "Sweep file (YAML)")->required();
  return command;
}

}  // namespace

void add_sweep_command(CLI::App& app, Command& command) {
  struct Arguments {
    std::string output, array;
    std::size_t task = 0;
  };
  auto file = std::make_shared<std::string>();
  auto arguments = std::make_shared<Arguments>();
  CLI::App* sweep = app.add_subcommand("sweep", "A grid of runs over one job file; slurm/sweep.sbatch submits it");
  sweep->require_subcommand(1);

  add(*sweep, "list", "Every cell: its task number, run directory and overrides", file)->callback([=, &command] {
    command.run = [=] { return list_cells(read_sweep(*file)); };
  });
  add(*sweep, "status", "Every cell: state by squeue, sacct or its run directory, step, loss, last checkpoint", file)
      ->callback([=, &command] { command.run = [=] { return show_status(read_sweep(*file)); }; });
  CLI::App* report = add(*sweep, "report", "One HTML file that compares the cells", file);
  report->add_option("-o,--output", arguments->output, "The file to write; default: report.html in the sweep's folder");
  report->callback([=, &command] { command.run = [=] { return write_sweep_report(read_sweep(*file), arguments->output); }; });
  add(*sweep, "pending", "Print the task numbers of the cells that are not done, as sbatch --array takes them", file)
      ->callback([=, &command] { command.run = [=] { return print_pending(read_sweep(*file)); }; });
  CLI::App* cell = add(*sweep, "cell", "Print a cell's job file and overrides, one a line", file);
  cell->add_option("TASK", arguments->task, "Task number")->required();
  cell->callback([=, &command] { command.run = [=] { return print_cell(*file, read_sweep(*file), arguments->task); }; });
  CLI::App* submitted = add(*sweep, "submitted", "Note a submitted job array, for status", file);
  submitted->add_option("ARRAY", arguments->array, "The array's job id")->required();
  submitted->callback([=, &command] { command.run = [=] { return note_submission(read_sweep(*file), arguments->array); }; });
}

}  // namespace longwave
