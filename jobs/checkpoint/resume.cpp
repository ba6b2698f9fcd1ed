#include "jobs/checkpoint/resume.h"

#include "jobs/checkpoint/saved_config.h"
#include "parallel/agreement.h"
#include "parallel/checkpoint/step_directory.h"

namespace longwave {
namespace {

void check_against(Config& config, const CheckpointReader& reader) {
  const CheckpointFacts& facts = reader.manifest().facts;
  keep_saved_defaults(config, facts.config);
  refuse_changes(config, facts.config, reader.folder());
  if (facts.step > config.train.steps) {
    throw refuse_setting(config, "train.steps",
                         fmt::format("{} is less than the {} steps that {} has made", config.train.steps, facts.step, reader.folder()));
  }
}

// The directory says that there was a checkpoint, and there is none.
void refuse_lost_steps(const RunDirectory& directory) {
  if (!directory.previous() || directory.previous()->checkpoint.empty()) return;
  throw data_error("{}: status.json names the checkpoint {}, but there is none; restore it, or choose another run.name",
                   checkpoints_folder(directory.path()), directory.previous()->checkpoint);
}

// Rank 0. None of it is worth a run: on a full disk, training can still go on.
void tidy(const std::string& folder, const FoundCheckpoint& found, Phase& phase, Progress& progress) {
  const Failure failure = capture([&] {
    remove_leftovers(folder);
    for (const std::int64_t step : found.skipped_steps) progress.say("kept for a look as " + set_aside(folder, step));
    if (found.reader) write_latest(folder, found.reader->manifest().facts.step);
  });
  if (!failure) return;
  phase.log().warning("tidy", {{"message", failure->what()}});
  progress.say(fmt::format("{} could not be tidied: {}", folder, failure->what()));
}

}  // namespace

std::string checkpoints_folder(const std::string& run) { return run + "/checkpoints"; }

void check_resume(const Config& config) {
  const std::string folder = checkpoints_folder(config.run_directory());
  const std::vector<std::int64_t> steps = list_steps(folder);
  if (config.run.resume == Resume::never && !steps.empty()) {
    throw refuse_setting(config, "run.resume",
                         fmt::format("is never, and {} holds {}; choose another run.name", folder, step_name(steps.back())));
  }
  if (config.run.resume == Resume::required && steps.empty()) {
    throw data_error("{}: run.resume is required, and there is no checkpoint to go on from", folder);
  }
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    std::optional<CheckpointReader> reader;
    try {
      reader.emplace(folder + "/" + step_name(*step));
    } catch (const Error&) {
      continue;  // find_resume will name it
    }
    Config copy = config;
    check_against(copy, *reader);
    return;
  }
}

std::unique_ptr<CheckpointReader> find_resume(Config& config, RunDirectory* directory, Phase& phase, Progress& progress,
                                              Communicator& control) {
  const std::string folder = checkpoints_folder(config.run_directory());
  FoundCheckpoint found = find_checkpoint(folder, control);
  together(control, [&] {
    if (found.reader) {
      check_against(config, *found.reader);
      training_state(found.reader->manifest().facts);
    } else if (directory != nullptr) {
      refuse_lost_steps(*directory);
    }
  });
  for (const std::string& reason : found.skipped) {
    phase.log().warning("bad_checkpoint", {{"message", reason}});
    progress.say("checkpoint not taken: " + reason);
  }
  if (directory != nullptr) tidy(folder, found, phase, progress);
  return std::move(found.reader);
}

}  // namespace longwave
