// What happened to a run, read from its directory alone: its attempts, with the Slurm job and the hosts of each, and within
// each attempt the signals, saves, resumes, warnings and errors that the ranks' logs tell of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longwave {

struct RunEvent {
  std::string time;
  int rank = 0;
  std::int64_t step = 0;
  std::string phase;
  std::string name;     // "start", "signal", "save", "resume", "error", ...
  std::string message;  // what the event says beyond its name
};

struct RunAttempt {
  std::int64_t number = 0;
  std::string time;       // of its start
  std::string slurm_job;  // as Slurm's commands take it, "123" or "123_4"; "" outside Slurm
  std::int64_t slurm_restarts = 0;
  std::vector<std::string> hosts;
  std::int64_t ranks = 0;
  std::vector<RunEvent> events;  // by time
};

// Attempts by number. Steps without incident are left out of the events. Throws data_error when `directory` is no run directory.
std::vector<RunAttempt> read_run_history(const std::string& directory);

// The run directories at or below `folder`, sorted. Throws data_error when there is no such folder.
std::vector<std::string> find_runs(const std::string& folder);

// Seconds from the arrival of a signal to the end of a save, as measured so far: the run's slowest step and slowest save.
struct StopTime {
  double step = 0;
  double save = 0;
};
StopTime measured_stop_time(const std::string& directory);

}  // namespace longwave
