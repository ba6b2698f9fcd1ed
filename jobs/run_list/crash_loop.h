// A run that Slurm starts again and again must not burn an allocation without getting on: after three attempts of one Slurm
// job without a new checkpoint it stops, and status.json says why. A job that is submitted anew begins to count anew.
#pragma once

#include <string>

namespace longwave {

struct CrashLoop {
  int attempts = 0;      // of this Slurm job since the last complete checkpoint
  std::string reason;    // "" while the run may go on
};

inline constexpr int attempts_without_progress = 3;

// `slurm_job` as provenance has it in "job_id"; `restarts` is Slurm's count, which also tells of attempts that ended before they
// had a run directory.
CrashLoop find_crash_loop(const std::string& run_directory, const std::string& slurm_job, int restarts);

// Writes state failed with the reason into status.json, where there is a run directory.
void stop_crash_loop(const std::string& run_directory, const CrashLoop& loop);

}  // namespace longwave
