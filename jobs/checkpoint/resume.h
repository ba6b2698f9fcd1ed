// Whether a run starts or goes on, and from where: run.resume and run.resume_step, decided by all ranks together.
//
// Going back to an older step leaves newer ones behind: they are set aside, so that no later attempt takes them for steps of
// the new course. A requeued job says the same again, and must not go back again: the new course's checkpoints keep
// run.resume_step among their settings, and where the newest has the same, the run goes on from there.
#pragma once

#include <string>

#include "jobs/checkpoint/training_state.h"
#include "jobs/config/config.h"
#include "jobs/phase.h"
#include "jobs/progress.h"
#include "jobs/run_directory/run_directory.h"
#include "parallel/checkpoint/verification.h"

namespace longwave {

std::string checkpoints_folder(const std::string& run);

// A run that goes on computes as it did: run.precision, where it is auto, becomes that of the newest checkpoint, on whatever
// machine this is. Before a device is chosen. Collective; throws like check_resume when a step is not there.
void keep_saved_precision(Config& config, Communicator& control);

// What can be refused before the run directory is touched: run.resume, a step that is not there, and a configuration that
// differs from the checkpoint's. Reads manifests only; for one rank. Throws config_error; data_error when there is nothing to
// resume from.
void check_resume(const Config& config);
// Whether steps are left behind. For one rank, after check_resume.
bool goes_back(const Config& config);

// With the run directory entered (`directory` on rank 0): finds the checkpoint to go on from, cleans what killed processes
// left and sets aside newer steps, those that are bad and those left behind. The reader is null when the run starts anew.
// `config` keeps the saved run's defaults. Collective; all throw when there are steps but none is good, when steps are
// missing, or when the configuration has changed.
std::unique_ptr<CheckpointReader> find_resume(Config& config, RunDirectory* directory, Phase& phase, Progress& progress,
                                              Communicator& control);

// The configuration as config.yaml keeps it: going back was asked of one attempt, and is no part of what the run is.
Config config_to_repeat(const Config& config);

}  // namespace longwave
