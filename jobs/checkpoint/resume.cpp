#include "jobs/checkpoint/resume.h"

#include <algorithm>
#include <memory>

#include "jobs/checkpoint/saved_config.h"
#include "parallel/agreement.h"
#include "parallel/checkpoint/step_directory.h"

namespace longwave {
namespace {

const std::string resume_step_key = "run.resume_step";

void check_against(Config& config, const CheckpointReader& reader) {
  const CheckpointFacts& facts = reader.manifest().facts;
  keep_saved_defaults(config, facts.config);
  refuse_changes(config, facts.config, reader.folder());
  if (facts.step > config.train.steps) {
    throw refuse_setting(config, "train.steps", fmt::format("{} is less than the {} steps that {} has made", config.train.steps,
                                                            facts.step, reader.folder()));
  }
}

// A step's manifest, or null where it is not to be trusted; find_resume will name it.
std::unique_ptr<CheckpointReader> try_open(const std::string& folder, std::int64_t step) {
  try {
    return std::make_unique<CheckpointReader>(folder + "/" + step_name(step));
  } catch (const Error&) {
    return nullptr;
  }
}

// The first of these steps that opens, or null.
std::unique_ptr<CheckpointReader> first_to_open(const std::string& folder, const std::vector<std::int64_t>& steps) {
  for (const std::int64_t step : steps) {
    if (auto reader = try_open(folder, step)) return reader;
  }
  return nullptr;
}

// Whether the run has gone back to run.resume_step already: its newest step was saved under this setting.
bool has_gone_back(const std::string& folder, const std::vector<std::int64_t>& newest_first, std::int64_t wanted) {
  for (const std::int64_t step : newest_first) {
    if (step <= wanted) return false;
    const std::unique_ptr<CheckpointReader> reader = try_open(folder, step);
    if (!reader) continue;
    const ConfigKeys& saved = reader->manifest().facts.config;
    return std::find(saved.begin(), saved.end(), std::pair{resume_step_key, fmt::format("{}", wanted)}) != saved.end();
  }
  return false;
}

// Steps that the run may go on from, and those that it leaves behind, newest first.
struct Choice {
  std::vector<std::int64_t> candidates;
  std::vector<std::int64_t> left_behind;
};

Choice choose_steps(const Config& config) {
  const std::string folder = checkpoints_folder(config.run_directory());
  const std::int64_t wanted = config.run.resume_step;
  const std::vector<std::int64_t> steps = list_steps(folder);
  std::vector<std::int64_t> newest_first(steps.rbegin(), steps.rend());
  if (wanted == 0) return {newest_first, {}};
  const auto older = std::find_if(newest_first.begin(), newest_first.end(), [&](std::int64_t step) { return step < wanted; });
  newest_first.erase(older, newest_first.end());
  if (has_gone_back(folder, newest_first, wanted)) return {newest_first, {}};
  if (newest_first.empty() || newest_first.back() != wanted) {
    std::vector<std::string> names;
    for (const std::int64_t step : steps) names.push_back(step_name(step));
    throw data_error("{}: there is no {}, which run.resume_step asks for; there {}", folder, step_name(wanted),
                     names.empty() ? "are no checkpoints" : fmt::format("is {}", fmt::join(names, ", ")));
  }
  newest_first.pop_back();
  return {{wanted}, newest_first};
}

// Nothing is started anew in the place of steps that are bad, and none is taken for another.
[[noreturn]] void refuse_bad_steps(const Config& config, const FoundCheckpoint& found) {
  const std::string reasons = fmt::format("{}", fmt::join(found.skipped, "; "));
  if (config.run.resume_step != 0) {
    throw data_error("{}; run.resume_step asks for step {}: restore it, or choose another", reasons, config.run.resume_step);
  }
  throw data_error("{}: none of the {} checkpoints is good: {}; nothing is started anew in their place: restore one, or choose "
                   "another run.name", checkpoints_folder(config.run_directory()), found.skipped.size(), reasons);
}

// The directory says that there was a checkpoint, and there is none.
void refuse_lost_steps(const RunDirectory& directory) {
  if (!directory.previous() || directory.previous()->checkpoint.empty()) return;
  throw data_error("{}: status.json names the checkpoint {}, but there is none; restore it, or choose another run.name",
                   checkpoints_folder(directory.path()), directory.previous()->checkpoint);
}

// Rank 0. The oldest goes first: were the process killed here, what is left would still be steps of one course of the run.
void leave_behind(const std::string& folder, const std::vector<std::int64_t>& newest_first, Progress& progress) {
  for (auto step = newest_first.rbegin(); step != newest_first.rend(); ++step) {
    progress.say(fmt::format("{} is left behind; kept for a look as {}", step_name(*step), set_aside(folder, *step)));
  }
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

void keep_saved_precision(Config& config, Communicator& control) {
  if (config.run.precision != Precision::automatic) return;
  std::string saved;
  together(control, [&] {
    if (control.rank() != 0) return;
    const auto reader = first_to_open(checkpoints_folder(config.run_directory()), choose_steps(config).candidates);
    if (!reader) return;
    for (const auto& [key, value] : reader->manifest().facts.config) {
      if (key == "run.precision") saved = value;
    }
  });
  saved = broadcast_text(control, saved, 0);
  if (!saved.empty()) config.run.precision = saved == "bf16" ? Precision::bf16 : Precision::fp32;
}

void check_resume(const Config& config) {
  const std::string folder = checkpoints_folder(config.run_directory());
  const Choice choice = choose_steps(config);
  if (config.run.resume == Resume::never && !choice.candidates.empty()) {
    throw refuse_setting(config, "run.resume", fmt::format("is never, and {} holds {}; choose another run.name", folder,
                                                           step_name(choice.candidates.front())));
  }
  if (config.run.resume == Resume::required && choice.candidates.empty()) {
    throw data_error("{}: run.resume is required, and there is no checkpoint to go on from", folder);
  }
  if (const auto reader = first_to_open(folder, choice.candidates)) {
    Config copy = config;
    check_against(copy, *reader);
  }
}

bool goes_back(const Config& config) { return !choose_steps(config).left_behind.empty(); }

std::unique_ptr<CheckpointReader> find_resume(Config& config, RunDirectory* directory, Phase& phase, Progress& progress,
                                              Communicator& control) {
  const std::string folder = checkpoints_folder(config.run_directory());
  Choice choice;
  together(control, [&] {
    if (directory != nullptr) choice = choose_steps(config);
  });
  FoundCheckpoint found = find_checkpoint(folder, choice.candidates, control);
  together(control, [&] {
    if (found.reader) {
      check_against(config, *found.reader);
      training_state(found.reader->manifest().facts);
    } else if (!found.skipped.empty()) {
      refuse_bad_steps(config, found);
    } else if (directory != nullptr) {
      refuse_lost_steps(*directory);
    }
  });
  for (const std::string& reason : found.skipped) {
    phase.log().warning("bad_checkpoint", {{"message", reason}});
    progress.say("checkpoint not taken: " + reason);
  }
  // Not before the step to go back to has been found good, and not after anything newer has been saved.
  together(control, [&] { leave_behind(folder, choice.left_behind, progress); });
  if (directory != nullptr) tidy(folder, found, phase, progress);
  return std::move(found.reader);
}

Config config_to_repeat(const Config& config) {
  Config repeated = config;
  repeated.run.resume_step = 0;
  for (Config::Origin& origin : repeated.origins) {
    if (origin.key == resume_step_key) origin.source = "default";
  }
  return repeated;
}

}  // namespace longwave
