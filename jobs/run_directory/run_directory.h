// runs/NAME as rank 0 holds it while a job runs: created or entered, locked, its attempt counted, its status and metrics
// written. What it contains is the interface to people and other programs; jobs/README.md describes it.
//
// The order at start: every rank validates everything; rank 0 constructs this; success is shared among the ranks; then every
// rank opens its RankLog and Heartbeat.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "jobs/run_directory/metrics_log.h"
#include "jobs/run_directory/provenance.h"
#include "jobs/run_directory/run_lock.h"
#include "jobs/run_directory/status.h"

namespace longwave {

class RunDirectory {
 public:
  // Makes what is missing, takes the lock, adds the attempt to provenance.json and writes status "starting". When any of it
  // fails, what was made is removed again. Throws config_error when a live process holds the directory, io_error.
  // `steps`: updates wanted.
  RunDirectory(const std::string& path, std::int64_t steps, const RunFacts& facts);

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  int attempt() const { return status_.attempt; }
  const std::optional<Status>& previous() const { return previous_; }  // what the attempt before left
  MetricsLog& metrics() { return *metrics_; }

  void write_config(std::string_view yaml);

  // Progress. Reaches the disk when state or phase changed, else at most once a second.
  void report(RunState state, std::string_view phase, std::int64_t step);
  void set_checkpoint(const std::string& name);  // the last complete one
  // The end of the attempt: done, stopped or failed, with the exit code the process will return.
  void finish(RunState state, std::int64_t step, ExitCode exit_code, const std::string& reason = "");

 private:
  void enter(const RunFacts& facts);
  void publish();

  std::string path_;
  std::optional<RunLock> lock_;
  std::optional<Status> previous_;
  std::optional<MetricsLog> metrics_;
  Status status_;
  std::chrono::steady_clock::time_point published_;
};

}  // namespace longwave
