#include "jobs/run_directory/run_directory.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "core/base/file.h"
#include "jobs/run_directory/heartbeat.h"

namespace longwave {
namespace {

std::vector<std::string> missing_entries(const std::string& directory) {
  std::vector<std::string> missing;
  for (const char* name : {"logs", "heartbeats", "metrics.jsonl", "provenance.json", "status.json"}) {
    if (!std::filesystem::exists(directory + "/" + name)) missing.push_back(directory + "/" + name);
  }
  return missing;
}

// On the way out of a failure, which is what to report, so what cannot be removed stays. Folders go only when empty:
// another process may have entered them meanwhile.
void remove_made(const std::vector<std::string>& entries, const std::vector<std::string>& folders) {
  std::error_code ignored;
  for (const std::string& path : entries) std::filesystem::remove_all(path, ignored);
  for (auto path = folders.rbegin(); path != folders.rend(); ++path) std::filesystem::remove(*path, ignored);
}

// Left by processes that were killed while they wrote.
void remove_partial_files(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.is_regular_file() && entry.path().extension() == ".partial") remove_file(entry.path().string());
  }
}

}  // namespace

RunDirectory::RunDirectory(const std::string& path, std::int64_t steps, const RunFacts& facts) : path_(path) {
  status_.steps = steps;
  status_.phase = "start";
  const std::vector<std::string> folders = make_directories(path);
  std::vector<std::string> entries;
  try {
    const bool had_lock = std::filesystem::exists(file("lock"));
    lock_.emplace(path);
    entries = missing_entries(path);  // now that nobody else makes any
    if (!had_lock) entries.push_back(file("lock"));
    enter(facts);
  } catch (...) {
    remove_made(entries, folders);
    throw;
  }
}

void RunDirectory::enter(const RunFacts& facts) {
  remove_partial_files(path_);
  previous_ = read_status(path_);
  if (previous_) {
    status_.attempt = previous_->attempt + 1;
    status_.step = previous_->step;
    status_.checkpoint = previous_->checkpoint;
  }
  make_directories(file("logs"));
  clear_heartbeats(path_);
  metrics_.emplace(path_);
  append_provenance(path_, status_.attempt, facts);
  publish();
}

void RunDirectory::write_config(std::string_view yaml) { write_file_atomically(file("config.yaml"), yaml); }

void RunDirectory::report(RunState state, std::string_view phase, std::int64_t step) {
  const bool changed = state != status_.state || phase != status_.phase;
  status_.state = state;
  status_.phase = phase;
  status_.step = step;
  if (changed || std::chrono::steady_clock::now() - published_ >= std::chrono::seconds(1)) publish();
}

void RunDirectory::set_checkpoint(const std::string& name) {
  status_.checkpoint = name;
  publish();
}

void RunDirectory::finish(RunState state, std::int64_t step, ExitCode exit_code, const std::string& reason) {
  metrics_->sync();
  status_.state = state;
  status_.step = step;
  status_.exit_code = static_cast<int>(exit_code);
  status_.reason = reason;
  publish();
}

void RunDirectory::publish() {
  write_status(path_, status_);
  published_ = std::chrono::steady_clock::now();
}

}  // namespace longwave
