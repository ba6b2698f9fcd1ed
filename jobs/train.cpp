#include "jobs/train.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "core/backend/matrix_rate.h"
#include "core/base/stop_request.h"
#include "jobs/checkpoint/initial_weights.h"
#include "jobs/checkpoint/resume.h"
#include "jobs/commands.h"
#include "jobs/job.h"
#include "jobs/length_evaluation.h"
#include "jobs/profile.h"
#include "jobs/rank_watch.h"
#include "jobs/report/format.h"
#include "jobs/report/report.h"
#include "jobs/run_ranks.h"
#include "jobs/step_graph.h"
#include "jobs/trainer.h"
#include "jobs/weights.h"
#include "parallel/agreement.h"
#include "parallel/checkpoint/restore.h"
#include "parallel/checkpoint/step_directory.h"

namespace longwave {
namespace {

// One run of the job on this rank, from a validated configuration to the evaluation.
class TrainJob {
 public:
  TrainJob(MpiEnvironment& mpi, Communicator& control, Config config, const TrainArguments& arguments)
      : job_(mpi, control, std::move(config)), progress_(control.rank() == 0), arguments_(arguments),
        path_(job_.config.run_directory()) {}

  ExitCode run(JobTrace& trace) {
    together(job_.control, [&] {
      if (job_.first()) check_resume(job_.config);
    });
    if (already_done()) return ExitCode::done;
    together(job_.control, [&] { check_inputs(); });
    open_directory(trace);
    prepare();
    const double rate = all_reduce_value(job_.control, measure_matrix_rate(job_.backend(), job_.device.compute), Reduction::sum);
    describe(rate);
    const TrainingState state = begin();
    RunCheckpoints checkpoints(job_, *optimizer_, *phase_, progress_);
    checkpoints.resumed_at(state.step);
    Trainer trainer(job_, std::move(*sampler_), *optimizer_, checkpoints, *phase_, progress_, rate);
    JobProfile profile(job_);
    const Trainer::Outcome outcome = trainer.run(state);
    profile.print("training", progress_);
    if (outcome == Trainer::Outcome::stopped) return stop(trainer.step(), trainer.stop_reason());
    save_weights(checkpoints.snapshot());
    return evaluate(profile);
  }

  const std::string& path() const { return path_; }

 private:
  bool already_done() {
    std::int64_t done = 0;
    together(job_.control, [&] {
      const std::optional<Status> status = job_.first() ? read_status(path_) : std::nullopt;
      done = status && status->state == RunState::done && status->steps == job_.config.train.steps && !goes_back(job_.config);
    });
    if (all_reduce_value(job_.control, done, Reduction::max) == 0) return false;
    progress_.say(fmt::format("{} is already done; choose another run.name to train again", path_));
    return true;
  }

  // The last that can be refused for what it is, before the run directory is made.
  void check_inputs() {
    const Config& config = job_.config;
    StepGraph::check(job_);
    sampler_ = job_.data->make_sampler(config.model.context, config.run.seed, config.evaluate.passkey.train_fraction);
    const bool starts_anew = list_steps(checkpoints_folder(path_)).empty();
    if (job_.first() && starts_anew && !config.run.init_from.empty()) check_initial_weights(config.run.init_from, *job_.model);
  }

  // What takes memory and time, and is watched.
  void prepare() {
    const Config& config = job_.config;
    together(job_.control, [&] { job_.model->prepare_training(config.train.micro_batch, config.model.context); });
    optimizer_.emplace(job_.model->parameters(), job_.backend(), *job_.mesh,
                       DataParallelOptions{.shard_optimizer = config.parallel.shard_optimizer});
  }

  void open_directory(JobTrace& trace) {
    together(job_.control, [&] {
      if (!job_.first()) return;
      directory_.emplace(path_, job_.config.train.steps, job_.facts(arguments_.command_line));
    });
    trace.run_directory = path_;
    together(job_.control, [&] { phase_.emplace(path_, job_.control.rank(), directory_ ? &*directory_ : nullptr); });
    trace.phase = &*phase_;
    trace.watchdog = watch_ranks(job_.mpi, job_.control, path_, job_.config.watchdog, *phase_, LossRecord::log_and_status);
    trace.start_watch.reset();
    phase_->enter("start", 0);
    phase_->log().info("start", {{"device", job_.device.note}, {"attempt", directory_ ? directory_->attempt() : 0}});
  }

  void describe(double rate) {
    const Config& config = job_.config;
    progress_.say(fmt::format("{}: {} parameters, {} on {} rank{} ({} data x {} tensor), {}; {:.2f} TFLOP/s of matrix products",
                              path_, show_count(static_cast<double>(job_.model->parameters().logical_count(false))),
                              name_of(config.position.kind), job_.control.size(), job_.control.size() == 1 ? "" : "s",
                              job_.mesh->shape().data, job_.mesh->shape().tensor, job_.device.note, rate / 1e12));
  }

  std::string weights_path() const { return path_ + "/weights.safetensors"; }

  // Initial values, or those of the newest good checkpoint.
  TrainingState begin() {
    TrainingState state;
    const auto checkpoint = find_resume(job_.config, directory_ ? &*directory_ : nullptr, *phase_, progress_, job_.control);
    if (checkpoint) {
      state = training_state(checkpoint->manifest().facts);
      restore(*checkpoint, *job_.model, job_.backend(), *optimizer_, job_.control, job_.tensors == nullptr);
      progress_.say(fmt::format("goes on from {}", checkpoint->folder()));
      phase_->log().info("resume", {{"checkpoint", checkpoint->folder()}});
    } else {
      job_.model->initialise();
      optimizer_->initialise(job_.config.run.seed);
      if (!job_.config.run.init_from.empty()) {
        progress_.say("weights from " + load_initial_weights(job_.config.run.init_from, job_, *optimizer_));
      }
    }
    together(job_.control, [&] {
      if (!directory_) return;
      directory_->write_config(to_yaml(config_to_repeat(job_.config), true));
      directory_->metrics().truncate_after(state.step);
      if (job_.config.logging.tensorboard) directory_->metrics().mirror_to_tensorboard(path_, directory_->attempt());
    });
    return state;
  }

  ExitCode stop(std::int64_t step, const std::string& reason) {
    progress_.end_line();
    progress_.say(reason);
    if (directory_) directory_->finish(RunState::stopped, step, ExitCode::requeue, reason);
    return ExitCode::requeue;
  }

  void save_weights(Snapshot& snapshot) {
    phase_->enter("save", job_.config.train.steps);
    write_weights(weights_path(), snapshot, job_.control,
                  {{"format", "pt"}, {"longwave_position", name_of(job_.config.position.kind)},
                   {"longwave_step", fmt::format("{}", job_.config.train.steps)}});
    phase_->log().info("save", {{"file", "weights.safetensors"}});
  }

  ExitCode evaluate(JobProfile& profile) {
    const std::int64_t steps = job_.config.train.steps;
    phase_->enter("evaluate", steps);
    LengthEvaluation evaluation;
    try {
      evaluation = evaluate_lengths(job_, progress_, [&] { phase_->pulse(steps); });
    } catch (const SharedError& error) {
      if (error.code() != ExitCode::requeue) throw;
      return stop(steps, error.what());
    }
    together(job_.control, [&] {
      if (directory_) write_length_evaluation(path_ + "/eval", job_.config.model.context, evaluation);
    });
    phase_->log().info("evaluate", {{"message", "done"}});
    profile.print("evaluation", progress_);
    for (const std::string& note : evaluation.notes) progress_.say(note);
    progress_.say(longwave::describe(evaluation, job_.config.model.context));
    if (directory_) directory_->finish(RunState::done, steps, ExitCode::done);
    return ExitCode::done;
  }

  Job job_;
  Progress progress_;
  const TrainArguments& arguments_;
  std::string path_;
  std::optional<Sampler> sampler_;
  std::optional<DataParallel> optimizer_;
  std::optional<RunDirectory> directory_;  // rank 0
  std::optional<Phase> phase_;
};

}  // namespace

ExitCode run_train(const TrainArguments& arguments) {
  install_stop_handlers();
  auto start_watch = watch_start(arguments.config, arguments.overrides);
  MpiEnvironment mpi(nullptr, nullptr);
  const auto control = MpiCommunicator::world();
  std::optional<TrainJob> job;  // outlives the body: what it has opened records how it failed
  const ExitCode code = run_ranks(mpi, *control, [&](JobTrace& trace) {
    trace.start_watch = std::move(start_watch);
    Config config;
    together(*control, [&] { config = load_config(arguments.config, arguments.overrides); });
    keep_saved_precision(config, *control);
    job.emplace(mpi, *control, std::move(config), arguments);
    return job->run(trace);
  });
  // Drawing starts other programs, which a process must not do between MPI_Init and MPI_Finalize.
  if (code == ExitCode::done && control->rank() == 0) {
    write_report({job->path()}, job->path() + "/report.html");
    fmt::print("report: {}/report.html\n", job->path());
  }
  return code;
}

void add_train_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* train = app.add_subcommand("train", "Train a model as a job file says, evaluate it by length and write its report");
  train->add_option("CONFIG", arguments->config, "Job file (YAML)")->required();
  train->add_option("OVERRIDE", arguments->overrides, "key=value, as in position.kind=rope; `longwave keys` lists them");
  train->footer("Alone, or under mpirun with one rank a device: mpirun -n 2 longwave train jobs/quickstart.yaml");
  train->callback([arguments, &command] {
    arguments->command_line = {"longwave", "train", arguments->config};
    arguments->command_line.insert(arguments->command_line.end(), arguments->overrides.begin(), arguments->overrides.end());
    command.run = [arguments] { return run_train(*arguments); };
  });
}

}  // namespace longwave
