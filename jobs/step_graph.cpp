#include "jobs/step_graph.h"

#include "core/base/stop_watch.h"
#include "parallel/agreement.h"

namespace longwave {

StepGraph::StepGraph(Job& job, DataParallel& optimizer, Phase& phase, Progress& progress)
    : job_(job), optimizer_(optimizer), phase_(phase), progress_(progress),
      recorder_(job.config.run.cuda_graph == GraphChoice::off ? nullptr : job.device.recorder) {}

void StepGraph::check(const Job& job) {
  if (job.config.run.cuda_graph != GraphChoice::on || job.device.recorder != nullptr) return;
  const bool profiled = job.device.profile != nullptr;
  throw refuse_setting(job.config, "run.cuda_graph",
                       profiled ? "true, but logging.profile times every operation by itself; leave one of them out"
                                : "true, but the job runs on the CPU; auto takes a graph where there is a GPU");
}

void StepGraph::run(const std::function<void()>& work, bool records) {
  const bool replays = recorder_ != nullptr && settled_ && (!records || record(work));
  if (replays) {
    recorder_->replay();
  } else {
    work();
    settled_ = true;
  }
}

bool StepGraph::record(const std::function<void()>& work) {
  std::size_t operations = 0;
  double seconds = 0;
  try {
    const StopWatch watch(seconds);
    together(job_.control, [&] { operations = recorder_->record(work); });
  } catch (const SharedError& error) {
    if (error.code() != ExitCode::configuration) throw;
    if (job_.config.run.cuda_graph == GraphChoice::on) {
      throw SharedError(error.code(), fmt::format("{}; use run.cuda_graph=false", error.what()), error.rank());
    }
    recorder_->forget_record();  // a graph that other ranks do not have
    recorder_ = nullptr;
    optimizer_.abandon_step();
    phase_.log().warning("cuda_graph", {{"message", error.what()}});
    progress_.say(fmt::format("steps are queued one by one: {}", error.what()));
    return false;
  }
  phase_.log().info("cuda_graph", {{"operations", operations}, {"seconds", seconds}});
  progress_.say(fmt::format("a step is one CUDA graph now: {} operations, recorded in {:.2f} s", operations, seconds));
  return true;
}

}  // namespace longwave
