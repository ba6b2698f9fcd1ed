#include "jobs/evaluate.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "core/base/file.h"
#include "core/base/stop_request.h"
#include "jobs/commands.h"
#include "jobs/length_evaluation.h"
#include "jobs/profile.h"
#include "jobs/rank_watch.h"
#include "jobs/run_ranks.h"
#include "jobs/weights.h"
#include "parallel/agreement.h"

namespace longwave {
namespace {

// The run's configuration on the ranks there are now, which need not be those it was trained on.
Config evaluation_config(const EvaluateArguments& arguments, int ranks) {
  std::vector<std::string> overrides = {"parallel.data=null", "parallel.tensor=1", "train.micro_batch=null",
                                        fmt::format("train.batch={}", ranks), "run.device=auto"};
  if (!arguments.lengths.empty()) overrides.push_back(fmt::format("evaluate.lengths=[{}]", fmt::join(arguments.lengths, ",")));
  if (!arguments.passkey.empty()) overrides.push_back(fmt::format("evaluate.passkey.lengths=[{}]", fmt::join(arguments.passkey, ",")));
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  return load_config(arguments.run + "/config.yaml", overrides);
}

// Where the ranks are, beside what they left when they trained.
void open_phase(Job& job, const std::string& run, std::optional<Phase>& phase, JobTrace& trace) {
  together(job.control, [&] {
    if (!job.first()) return;
    make_directories(run + "/logs");
    clear_heartbeats(run);
  });
  together(job.control, [&] { phase.emplace(run, job.control.rank(), nullptr); });
  trace.phase = &*phase;
  // What becomes of an evaluation says nothing about the run, so status.json stays.
  trace.watchdog = watch_ranks(job.mpi, job.control, run, job.config.watchdog, *phase, LossRecord::log_only);
  trace.start_watch.reset();
  phase->log().info("start", {{"device", job.device.note}, {"message", "evaluate"}});
}

ExitCode evaluate_run(MpiEnvironment& mpi, Communicator& control, const EvaluateArguments& arguments, std::optional<Phase>& phase,
                      JobTrace& trace) {
  Config config;
  together(control, [&] { config = evaluation_config(arguments, control.size()); });
  Job job(mpi, control, std::move(config));
  std::optional<RunLock> lock;  // a training run may be about to write the same files
  together(control, [&] {
    if (job.first()) lock.emplace(arguments.run);
  });
  open_phase(job, arguments.run, phase, trace);
  together(control, [&] { read_weights(arguments.run + "/weights.safetensors", *job.model, job.backend()); });

  Progress progress(job.first());
  JobProfile profile(job);
  const std::int64_t steps = job.config.train.steps;
  phase->enter("evaluate", steps);
  const LengthEvaluation evaluation = evaluate_lengths(job, progress, [&] { phase->pulse(steps); });
  profile.print("evaluation", progress);
  const std::string output = arguments.output.empty() ? arguments.run + "/eval" : arguments.output;
  together(control, [&] {
    if (job.first()) write_length_evaluation(output, job.config.model.context, evaluation);
  });
  for (const std::string& note : evaluation.notes) progress.say(note);
  progress.say(describe(evaluation, job.config.model.context));
  progress.say(fmt::format("written to {}", output));
  return ExitCode::done;
}

}  // namespace

ExitCode run_evaluate(const EvaluateArguments& arguments) {
  install_stop_handlers();
  auto start_watch = watch_start(arguments.run + "/config.yaml", arguments.overrides);
  MpiEnvironment mpi(nullptr, nullptr);
  const auto control = MpiCommunicator::world();
  std::optional<Phase> phase;  // outlives the body, whose failure it logs
  return run_ranks(mpi, *control, [&](JobTrace& trace) {
    trace.start_watch = std::move(start_watch);
    return evaluate_run(mpi, *control, arguments, phase, trace);
  });
}

void add_evaluate_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* evaluate = app.add_subcommand("evaluate", "Measure a trained run's perplexity by length and passkey retrieval");
  evaluate->add_option("RUN", arguments->run, "Run directory")->required();
  evaluate->add_option("OVERRIDE", arguments->overrides, "key=value, as in position.scaling=yarn");
  evaluate->add_option("--lengths", arguments->lengths, "Lengths in tokens, as in --lengths 512,1024")->delimiter(',');
  evaluate->add_option("--passkey", arguments->passkey, "Lengths of passkey prompts in tokens")->delimiter(',');
  evaluate->add_option("-o,--output", arguments->output, "Folder for the results; default RUN/eval");
  evaluate->callback([arguments, &command] { command.run = [arguments] { return run_evaluate(*arguments); }; });
}

}  // namespace longwave
