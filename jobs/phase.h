// Where a rank is, kept in three places at once: its log, its heartbeat and, by rank 0, status.json.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "jobs/run_directory/heartbeat.h"
#include "jobs/run_directory/rank_log.h"
#include "jobs/run_directory/run_directory.h"

namespace longwave {

class Phase {
 public:
  // `path` of the run directory, which exists; `directory` on rank 0 only.
  Phase(const std::string& path, int rank, RunDirectory* directory)
      : log_(path, rank), heartbeat_(path, rank), directory_(directory) {}

  // "start", "train", "evaluate", "save". Logged, with the seconds that the phase before took.
  void enter(const std::string& name, std::int64_t step);
  // Still in the same phase, and alive.
  void pulse(std::int64_t step);
  // This rank is about to end in the ordinary way, or has said why it does not: nobody is to miss it.
  void leave();

  RankLog& log() { return log_; }
  RunDirectory* directory() { return directory_; }
  const std::string& name() const { return name_; }
  std::int64_t step() const { return step_; }

 private:
  void log_change(const std::string& name);

  RankLog log_;
  Heartbeat heartbeat_;
  RunDirectory* directory_;
  std::string name_ = "start";
  std::int64_t step_ = 0;
  std::chrono::steady_clock::time_point entered_ = std::chrono::steady_clock::now();
};

}  // namespace longwave
