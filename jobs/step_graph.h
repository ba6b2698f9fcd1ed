// run.cuda_graph: what a step queues up to the sums that it reads, recorded in the second step of a process and replayed from
// then on. The optimizer stays outside: its factors change with every step.
#pragma once

#include <functional>

#include "core/backend/recorder.h"
#include "jobs/job.h"
#include "jobs/phase.h"
#include "jobs/progress.h"
#include "parallel/data_parallel.h"

namespace longwave {

class StepGraph {
 public:
  StepGraph(Job& job, DataParallel& optimizer, Phase& phase, Progress& progress);

  // Throws config_error where run.cuda_graph is true and this job's device records nothing.
  static void check(const Job& job);

  // Whether this rank would record in the next step. Operations between ranks are recorded by all or none, so the largest answer
  // of all ranks is what to tell `run`.
  bool wants_record() const { return recorder_ != nullptr && settled_ && !recorder_->recorded(); }
  // Does `work`, or what was recorded of it. Collective. Throws SharedError when it cannot be recorded and has to be.
  void run(const std::function<void()>& work, bool records);

 private:
  bool record(const std::function<void()>& work);

  Job& job_;
  DataParallel& optimizer_;
  Phase& phase_;
  Progress& progress_;
  Recorder* recorder_;    // null: every step is queued anew
  bool settled_ = false;  // a step has run: algorithms are chosen, scratch has its size, ranks are connected
};

}  // namespace longwave
