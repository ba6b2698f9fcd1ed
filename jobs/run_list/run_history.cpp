#include "jobs/run_list/run_history.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "jobs/run_directory/provenance.h"
#include "jobs/run_directory/rank_log.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

std::string text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t integer(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

std::string slurm_job(const Json& attempt) {
  const Json job = attempt.value("slurm", Json::object());
  if (!job.is_object()) return "";
  const std::string array = text(job, "array_job_id");
  return array.empty() ? text(job, "job_id") : array + "_" + text(job, "array_task_id");
}

RunAttempt read_attempt(const Json& json) {
  RunAttempt attempt;
  attempt.number = integer(json, "attempt");
  attempt.time = text(json, "time");
  attempt.slurm_job = slurm_job(json);
  if (!attempt.slurm_job.empty()) {
    const std::string restarts = text(json.at("slurm"), "restarts");
    attempt.slurm_restarts = restarts.empty() ? 0 : std::stoll(restarts);
  }
  attempt.ranks = integer(json, "ranks");
  for (const Json& host : json.value("hosts", Json::array())) attempt.hosts.push_back(host.get<std::string>());
  return attempt;
}

// All ranks see a save or a signal; one line for it is enough, and rank 0 writes it.
bool is_told(const Json& line, int rank) {
  const std::string level = text(line, "level");
  if (level == "warning" || level == "error") return true;
  const std::string name = text(line, "event");
  return rank == 0 && name != "step" && name != "start";
}

// The fields of an event that are not its place and time, as "file=weights.safetensors seconds=1.5".
std::string describe(const Json& line) {
  std::string message = text(line, "message");
  for (const auto& [key, value] : line.items()) {
    static const std::vector<std::string> known = {"time", "level", "rank", "host", "step", "phase", "event", "message"};
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
    message += fmt::format("{}{}={}", message.empty() ? "" : " ", key, shown);
  }
  return message;
}

std::vector<int> ranks_with_logs(const std::string& directory) {
  std::vector<int> ranks;
  const fs::path logs = directory + "/logs";
  if (!fs::is_directory(logs)) return ranks;
  for (const auto& entry : fs::directory_iterator(logs)) {
    int rank = 0;
    if (std::sscanf(entry.path().filename().c_str(), "rank-%d.jsonl", &rank) == 1) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::vector<RunEvent> read_events(const std::string& directory) {
  std::vector<RunEvent> events;
  for (const int rank : ranks_with_logs(directory)) {
    for (const Json& line : read_rank_log(directory, rank)) {
      if (!is_told(line, rank)) continue;
      events.push_back({text(line, "time"), rank, integer(line, "step"), text(line, "phase"), text(line, "event"),
                        describe(line)});
    }
  }
  std::stable_sort(events.begin(), events.end(), [](const RunEvent& a, const RunEvent& b) { return a.time < b.time; });
  return events;
}

bool is_run(const fs::path& folder) { return fs::exists(folder / "status.json") || fs::exists(folder / "provenance.json"); }

void collect_runs(const fs::path& folder, std::vector<std::string>& runs) {
  if (is_run(folder)) {
    runs.push_back(folder.string());
    return;
  }
  for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied)) {
    if (entry.is_directory() && !entry.is_symlink()) collect_runs(entry.path(), runs);
  }
}

}  // namespace

std::vector<RunAttempt> read_run_history(const std::string& directory) {
  if (!is_run(directory)) throw data_error("{}: no run directory (neither status.json nor provenance.json is there)", directory);
  std::vector<RunAttempt> attempts;
  const std::string path = directory + "/provenance.json";
  if (fs::exists(path)) {
    read_fields(read_provenance(directory), path, [&](const Json& json) {
      for (const Json& attempt : json.at("attempts")) attempts.push_back(read_attempt(attempt));
    });
  }
  if (attempts.empty()) attempts.emplace_back();
  for (RunEvent& event : read_events(directory)) {
    // Of the last attempt that had begun by then; clocks of hosts differ a little, so the first attempt takes what is earlier.
    auto owner = attempts.begin();
    while (owner + 1 != attempts.end() && (owner + 1)->time <= event.time) ++owner;
    owner->events.push_back(std::move(event));
  }
  return attempts;
}

std::vector<std::string> find_runs(const std::string& folder) {
  if (!fs::is_directory(folder)) throw data_error("{}: no such folder", folder);
  std::vector<std::string> runs;
  collect_runs(folder, runs);
  std::sort(runs.begin(), runs.end());
  return runs;
}

StopTime measured_stop_time(const std::string& directory) {
  StopTime slowest;
  std::int64_t before = 0;
  for (const Json& line : read_rank_log(directory, 0)) {
    const std::string name = text(line, "event");
    const auto seconds = line.find("seconds");
    const std::int64_t step = integer(line, "step");
    if (name == "start" || name == "resume") before = step;
    if (seconds == line.end() || !seconds->is_number()) continue;
    if (name == "save") slowest.save = std::max(slowest.save, seconds->get<double>());
    if (name != "step") continue;
    if (step > before) slowest.step = std::max(slowest.step, seconds->get<double>() / static_cast<double>(step - before));
    before = step;
  }
  return slowest;
}

}  // namespace longwave
