// logging.profile: the table of operations that a job prints after training and after its evaluation.
#pragma once

#include <chrono>
#include <string>

#include "core/backend/profile/profile.h"
#include "jobs/job.h"
#include "jobs/progress.h"

namespace longwave {

// Seconds, calls, rate and fraction of the floor of every operation, and what of `wall_seconds` passed outside of them.
std::string profile_table(const Profile& profile, const HardwareRates& rates, double wall_seconds);

// This rank's profile, printed by the first rank. Without logging.profile every call does nothing.
class JobProfile {
 public:
  // Measures the rates, on all ranks at once, and starts the clock.
  explicit JobProfile(Job& job);
  // Prints what has passed since the last call, or the start, and begins anew. `part` is "training" or "evaluation".
  void print(const char* part, Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;

  Job& job_;
  HardwareRates rates_;
  Clock::time_point begin_;
};

}  // namespace longwave
