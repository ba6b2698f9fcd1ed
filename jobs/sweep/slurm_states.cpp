#include "jobs/sweep/slurm_states.h"

#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>

#include "core/base/error.h"

namespace longwave {
namespace {

bool is_id(const std::string& text) { return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos; }

// What the command prints; "" when it does not exist or fails. Array ids are digits, checked by the caller.
std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((command + " 2>/dev/null").c_str(), "r"), ::pclose);
  if (!pipe) return "";
  std::string output;
  std::array<char, 4096> block;
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), pipe.get())) output.append(block.data(), count);
  return output;
}

// "123_4" to 4; nothing for other jobs and for steps such as "123_4.batch".
std::optional<std::int64_t> task_of(const std::string& job) {
  const std::size_t at = job.find('_');
  if (at == std::string::npos || at + 1 == job.size()) return std::nullopt;
  const std::string task = job.substr(at + 1);
  if (task.size() > 9 || task.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return std::stoll(task);
}

// sacct: "CANCELLED by 1000".
std::string first_word(const std::string& text) { return text.substr(0, text.find(' ')); }

void take(const std::string& lines, std::map<std::int64_t, SlurmState>& states) {
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream fields(line);
    std::string job, state;
    std::getline(fields, job, '|');
    std::getline(fields, state, '|');
    if (const std::optional<std::int64_t> task = task_of(job); task && !state.empty()) {
      states.emplace(*task, SlurmState{job, first_word(state)});
    }
  }
}

// Pending once more, after an attempt.
void mark_requeued(const std::string& array, std::map<std::int64_t, SlurmState>& states) {
  std::istringstream lines(output_of(fmt::format(
      "squeue --array --noheader --jobs={} --states=PENDING --Format=ArrayJobID:20,ArrayTaskID:20,RestartCnt:20", array)));
  for (std::string job, task, restarts; lines >> job >> task >> restarts;) {
    const auto found = states.find(task_of(job + "_" + task).value_or(-1));
    if (found != states.end() && restarts != "0") found->second.state = "REQUEUED";
  }
}

}  // namespace

std::map<std::int64_t, SlurmState> slurm_states(const std::vector<std::string>& arrays) {
  std::map<std::int64_t, SlurmState> states;  // whoever tells of a task first is right: the latest array, then squeue
  for (auto array = arrays.rbegin(); array != arrays.rend(); ++array) {
    if (!is_id(*array)) continue;
    std::map<std::int64_t, SlurmState> latest;
    take(output_of(fmt::format("squeue --array --noheader --states=all --jobs={} --format='%i|%T'", *array)), latest);
    mark_requeued(*array, latest);
    take(output_of(fmt::format("sacct --noheader --parsable2 --allocations --array --jobs={} --format=JobID,State", *array)),
         latest);
    states.insert(latest.begin(), latest.end());
  }
  return states;
}


std::map<std::string, std::string> completion_states(const std::vector<std::string>& jobs) {
  std::map<std::string, std::string> states;
  std::vector<std::string> known;
  for (const std::string& job : jobs) {
    if (is_id(job)) known.push_back(job);
  }
  if (known.empty()) return states;
  std::istringstream lines(output_of(
      fmt::format("sacct --completion --noheader --parsable2 --allusers --jobs={} --format=JobID,State", fmt::join(known, ","))));
  for (std::string line; std::getline(lines, line);) {
    // The latest of a job's lines is right: it has one for every attempt.
    const std::size_t bar = line.find('|');
    if (bar != std::string::npos) states[line.substr(0, bar)] = first_word(line.substr(bar + 1));
  }
  return states;
}

}  // namespace longwave
