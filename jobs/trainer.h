// The training loop of one rank: sample, forward, backward, reduce, decide, update, log. Every decision that could differ
// between ranks (stop, skip, fail) is taken from a reduced value.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/backend/host_memory.h"
#include "jobs/checkpoint/run_checkpoints.h"
#include "jobs/job.h"
#include "jobs/phase.h"
#include "jobs/progress.h"
#include "jobs/step_graph.h"
#include "jobs/step_guard.h"
#include "jobs/step_times.h"
#include "parallel/data_parallel.h"

namespace longwave {

class Trainer {
 public:
  // The model is prepared for training. `rate` is the matrix-product rate of all ranks together (operations a
  // second), against which steps are judged.
  Trainer(Job& job, Sampler sampler, DataParallel& optimizer, RunCheckpoints& checkpoints, Phase& phase, Progress& progress, double rate);

  enum class Outcome { done, stopped };
  // From `state` to train.steps; either way its last step is on disk. Throws SharedError: bad data, a bad step under
  // on_bad_step: stop, or a checkpoint that could not be written.
  Outcome run(const TrainingState& state);

  std::int64_t step() const { return step_; }
  const std::string& stop_reason() const { return stop_reason_; }

 private:
  using Clock = std::chrono::steady_clock;

  void load_batch();
  void queue_gradients(Clock::time_point& passes_queued);
  StepResult compute_gradients();
  bool accept(const StepResult& result);
  void update(const StepResult& result);
  void log_step(const StepResult& result, double learning_rate);
  void log_validation();
  Outcome train();
  bool stop_wanted();
  TrainingState state() const { return {step_, updates_, guard_.state(), seconds_}; }

  Job& job_;
  Sampler sampler_;
  DataParallel& optimizer_;
  RunCheckpoints& checkpoints_;
  Phase& phase_;
  Progress& progress_;
  double rate_;
  std::int64_t step_ = 0;
  std::int64_t updates_ = 0;       // steps that were not skipped
  StepGuard guard_;
  StepGraph graph_;
  bool records_ = false;  // the next step
  std::string stop_reason_;

  std::int64_t batch_tokens_;            // of this rank a step
  HostMemory tokens_, targets_;          // int32 [batch_tokens]
  HostMemory weights_;                   // fp32 [batch_tokens]
  StepTimes times_;
  Json memory_;  // bytes by kind
  std::int64_t logged_step_ = 0;
  Clock::time_point logged_at_;
  double seconds_ = 0;  // of training, up to the last logged step
};

}  // namespace longwave
