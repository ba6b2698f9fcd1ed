#include "jobs/checkpoint/run_checkpoints.h"

#include "core/base/file.h"
#include "jobs/checkpoint/resume.h"
#include "jobs/checkpoint/saved_config.h"
#include "jobs/version.h"
#include "parallel/checkpoint/step_directory.h"

namespace longwave {
namespace {

CheckpointerOptions options_of(const Job& job, Phase& phase) {
  const CheckpointConfig& wanted = job.config.checkpoint;
  CheckpointerOptions options{checkpoints_folder(job.config.run_directory()), wanted.async, wanted.verify, wanted.keep,
                              wanted.keep_every, nullptr};
  if (RunDirectory* directory = phase.directory()) options.before_commit = [directory] { directory->metrics().sync(); };
  return options;
}

}  // namespace

RunCheckpoints::RunCheckpoints(Job& job, const DataParallel& optimizer, Phase& phase, Progress& progress)
    : job_(job), phase_(phase), progress_(progress),
      checkpointer_(options_of(job, phase), Snapshot(job.model->parameters(), job.backend(), optimizer, *job.mesh), job.control,
                    job.mesh->shape()) {
  if (!job.first()) return;
  const std::string run = job.config.run_directory();
  const auto most = static_cast<std::uint64_t>(job.config.checkpoint.keep + 1);  // the new one beside those kept
  if (const std::uint64_t free = free_bytes(run); free < most * checkpointer_.bytes()) {
    const std::string message =
        fmt::format("{}: {} MB are free; {} checkpoints need {} MB", run, free >> 20, most, most * checkpointer_.bytes() >> 20);
    phase_.log().warning("space", {{"message", message}});
    progress_.say("warning: " + message);
  }
}

bool RunCheckpoints::due(std::int64_t step) const {
  const CheckpointConfig& wanted = job_.config.checkpoint;
  if (step == saved_step_) return false;
  if (wanted.every_steps > 0 && step % wanted.every_steps == 0) return true;
  const std::chrono::duration<double, std::ratio<60>> since = Clock::now() - last_start_;
  return job_.first() && wanted.every_minutes > 0 && since.count() >= wanted.every_minutes;
}

void RunCheckpoints::at_boundary(bool due, bool busy, const TrainingState& state) {
  if (checkpointer_.in_flight() && !busy) {
    if (const std::optional<SaveResult> result = checkpointer_.advance()) record(*result, state.step, false);
  }
  if (!due) return;
  if (checkpointer_.in_flight()) {  // one at a time: saves are asked for faster than they are written
    phase_.enter("save", state.step);
    record(checkpointer_.finish(), state.step, false);
    phase_.enter("train", state.step);
  }
  start(state);
}

void RunCheckpoints::save_now(const TrainingState& state, bool must) {
  phase_.enter("save", state.step);
  if (checkpointer_.in_flight()) record(checkpointer_.finish(), state.step, must && checkpointer_.step() == state.step);
  if (saved_step_ == state.step) return;
  start(state);
  if (checkpointer_.in_flight()) record(checkpointer_.finish(), state.step, must);
  if (must && saved_step_ != state.step) {  // a synchronous save that failed, and on_error let it pass
    throw SharedError(ExitCode::io, fmt::format("step {} could not be saved; see logs/", state.step), 0);
  }
}

void RunCheckpoints::settle() {
  if (!checkpointer_.in_flight()) return;
  try {
    record(checkpointer_.finish(), checkpointer_.step(), false);
  } catch (const SharedError&) {
    // On its way out already, with the failure that came first.
  }
}

void RunCheckpoints::start(const TrainingState& state) {
  last_start_ = Clock::now();
  saved_step_ = state.step;
  CheckpointFacts facts;
  facts.step = state.step;
  facts.samples = state.step * job_.config.train.batch;
  facts.program = fmt::format("longwave {} ({})", version(), commit());
  facts.config = config_keys(job_.config);
  facts.training = to_json(state);
  if (const std::optional<SaveResult> result = checkpointer_.start(std::move(facts))) record(*result, state.step, false);
}

void RunCheckpoints::record(const SaveResult& result, std::int64_t now, bool must) {
  if (result.failure) {
    if (saved_step_ == result.step) saved_step_ = 0;
    const std::string message = fmt::format("checkpoint of step {} failed: {}", result.step, result.failure->what());
    phase_.log().error("save", {{"message", message}, {"failed_rank", result.failure->rank()}});
    if (must || job_.config.checkpoint.on_error == OnSaveError::abort) {
      throw SharedError(result.failure->code(), message, result.failure->rank());
    }
    progress_.say(message + "; training goes on");
    return;
  }
  phase_.log().info("save", {{"checkpoint", step_name(result.step)},
                             {"stall_seconds", result.stall_seconds},
                             {"seconds", result.seconds},
                             {"removed", result.removed}});
  if (RunDirectory* directory = phase_.directory()) {
    directory->set_checkpoint(step_name(result.step));
    const double rate = static_cast<double>(result.bytes) / 1e9 / result.seconds;
    directory->metrics().append({{"step", now},
                                 {"checkpoint_step", result.step},
                                 {"checkpoint_stall_seconds", result.stall_seconds},
                                 {"checkpoint_seconds", result.seconds},
                                 {"checkpoint_bytes", result.bytes},
                                 {"checkpoint_gb_per_second", rate}});
  }
  if (!result.warning.empty()) {
    phase_.log().warning("save", {{"message", result.warning}});
    progress_.say(fmt::format("step {} is saved, but: {}", result.step, result.warning));
  }
}

}  // namespace longwave
