#include "jobs/evaluate.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "core/base/stop_request.h"
#include "jobs/commands.h"
#include "jobs/length_evaluation.h"
#include "jobs/profile.h"
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

ExitCode evaluate_run(MpiEnvironment& mpi, Communicator& control, const EvaluateArguments& arguments) {
  Config config;
  together(control, [&] { config = evaluation_config(arguments, control.size()); });
  Job job(mpi, control, std::move(config));
  std::optional<RunLock> lock;  // a training run may be about to write the same files
  together(control, [&] {
    if (job.first()) lock.emplace(arguments.run);
  });
  together(control, [&] { read_weights(arguments.run + "/weights.safetensors", *job.model, job.backend()); });

  Progress progress(job.first());
  JobProfile profile(job);
  const LengthEvaluation evaluation = evaluate_lengths(job, progress, {});
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
  MpiEnvironment mpi(nullptr, nullptr);
  const auto control = MpiCommunicator::world();
  return run_ranks(mpi, *control, [&](JobTrace&) { return evaluate_run(mpi, *control, arguments); });
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
