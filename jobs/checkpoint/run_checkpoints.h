// When a run saves, and what becomes of it: checkpoint.* of the configuration. One path for every occasion: every so many
// steps or minutes, at the last step, on a signal.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "jobs/checkpoint/training_state.h"
#include "jobs/job.h"
#include "jobs/phase.h"
#include "jobs/progress.h"
#include "parallel/checkpoint/checkpointer.h"

namespace longwave {

class RunCheckpoints {
 public:
  // The run directory exists. Takes the memory of a snapshot. Collective.
  RunCheckpoints(Job& job, const DataParallel& optimizer, Phase& phase, Progress& progress);

  // This step is on disk already: the one resumed from.
  void resumed_at(std::int64_t step) { saved_step_ = step; }

  // A step's boundary, where the ranks reduce (max) what each of them says here and then act on it together.
  bool due(std::int64_t step) const;           // by steps, or by the clock of rank 0
  bool busy() const { return checkpointer_.busy(); }
  void at_boundary(bool due, bool busy, const TrainingState& state);

  // Returns when this state is on disk. When it cannot be saved: throws if `must` or under on_error: abort, else goes on.
  // Collective.
  void save_now(const TrainingState& state, bool must);
  // Where a save copies to; nobody's while no save is in flight.
  Snapshot& snapshot() { return checkpointer_.snapshot(); }
  // Waits for a save in flight, on the way out of a failure that all ranks share: never throws for a save that fails too.
  void settle();

 private:
  using Clock = std::chrono::steady_clock;

  void start(const TrainingState& state);
  void record(const SaveResult& result, std::int64_t now, bool must);

  Job& job_;
  Phase& phase_;
  Progress& progress_;
  Checkpointer checkpointer_;
  std::int64_t saved_step_ = 0;  // saved, or being saved; at step 0 there is nothing to save
  Clock::time_point last_start_ = Clock::now();
};

}  // namespace longwave
