#include "jobs/run_directory/status.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/host.h"
#include "core/base/json.h"
#include "core/base/timestamp.h"
#include "jobs/run_directory/byte_lock.h"

namespace longwave {
namespace {

constexpr RunState all_states[] = {RunState::starting, RunState::running, RunState::stopped, RunState::done, RunState::failed};

std::string status_path(const std::string& run_directory) { return run_directory + "/status.json"; }

RunState parse_state(const std::string& word, const std::string& path) {
  for (RunState state : all_states) {
    if (word == name_of(state)) return state;
  }
  throw data_error("{}: unknown state \"{}\"", path, word);
}

// Keeps two ranks from replacing status.json at once. A holder that is stopped or on a cut-off node must not keep a failing
// rank from leaving, so it is waited for only briefly.
ByteLock lock_status(const std::string& run_directory) {
  using namespace std::chrono_literals;
  const auto limit = std::chrono::steady_clock::now() + 2s;
  while (true) {
    ByteLock lock = ByteLock::try_lock(File::update(run_directory + "/lock"), ByteLock::status_byte);
    if (lock.held() || std::chrono::steady_clock::now() > limit) return lock;
    std::this_thread::sleep_for(10ms);
  }
}

Json to_json(const Status& status) {
  Json json;
  json["state"] = name_of(status.state);
  json["step"] = status.step;
  json["steps"] = status.steps;
  json["attempt"] = status.attempt;
  json["checkpoint"] = status.checkpoint;
  json["exit_code"] = status.exit_code ? Json(*status.exit_code) : Json();
  json["reason"] = status.reason;
  json["rank"] = status.rank;
  json["host"] = status.host;
  json["phase"] = status.phase;
  json["time"] = status.time;
  return json;
}

// The caller holds the lock.
void write(const std::string& run_directory, Status status) {
  status.time = timestamp();
  if (status.host.empty()) status.host = host_name();
  write_json_atomically(status_path(run_directory), to_json(status));
}

// The caller holds the lock.
bool replace(const std::string& run_directory, const std::optional<Status>& before, Status status) {
  if (before && before->state == RunState::failed && before->attempt == status.attempt) return false;
  write(run_directory, std::move(status));
  return true;
}

}  // namespace

const char* name_of(RunState state) {
  switch (state) {
    case RunState::starting: return "starting";
    case RunState::running: return "running";
    case RunState::stopped: return "stopped";
    case RunState::done: return "done";
    case RunState::failed: return "failed";
  }
  return "?";
}

std::optional<Status> read_status(const std::string& run_directory) {
  const std::string path = status_path(run_directory);
  if (!std::filesystem::exists(path)) return std::nullopt;
  Status status;
  read_fields(read_json(path), path, [&](const Json& json) {
    status.state = parse_state(json.at("state").get<std::string>(), path);
    json.at("step").get_to(status.step);
    json.at("steps").get_to(status.steps);
    json.at("attempt").get_to(status.attempt);
    json.at("checkpoint").get_to(status.checkpoint);
    if (!json.at("exit_code").is_null()) status.exit_code = json.at("exit_code").get<int>();
    json.at("reason").get_to(status.reason);
    json.at("rank").get_to(status.rank);
    json.at("host").get_to(status.host);
    json.at("phase").get_to(status.phase);
    json.at("time").get_to(status.time);
  });
  return status;
}

bool write_status(const std::string& run_directory, Status status) {
  const ByteLock lock = lock_status(run_directory);
  return replace(run_directory, read_status(run_directory), std::move(status));
}

void record_failure(const std::string& run_directory, const FailurePlace& place, ExitCode exit_code,
                    const std::string& reason) noexcept try {
  const ByteLock lock = lock_status(run_directory);
  const std::optional<Status> before = read_status(run_directory);
  Status status = before.value_or(Status{});
  status.state = RunState::failed;
  status.step = place.step;
  status.exit_code = static_cast<int>(exit_code);
  status.reason = reason;
  status.rank = place.rank;
  status.host = place.host;
  status.phase = place.phase;
  replace(run_directory, before, std::move(status));
} catch (const std::exception& error) {
  std::fprintf(stderr, "longwave: status.json could not be written: %s\n", error.what());
}

void record_out_of_memory(const std::string& run_directory, const std::string& cause) {
  if (!std::filesystem::exists(status_path(run_directory))) return;
  const ByteLock lock = lock_status(run_directory);
  Status status = *read_status(run_directory);
  status.state = RunState::failed;
  status.exit_code = out_of_memory_code;
  status.reason = status.reason.empty() ? cause : fmt::format("{} ({})", cause, status.reason);
  write(run_directory, std::move(status));
}

}  // namespace longwave
