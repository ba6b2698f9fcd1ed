// Whether a run starts or goes on, and from where: run.resume, decided by all ranks together.
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

// What can be refused before the run directory is touched: run.resume, and a configuration that differs from the newest
// checkpoint's. Reads manifests only; for one rank. Throws config_error; data_error when there is nothing to resume from.
void check_resume(const Config& config);

// With the run directory entered (`directory` on rank 0): finds the checkpoint to go on from, cleans what killed processes
// left and sets newer steps aside. The reader is null when the run starts anew. `config` keeps the saved run's defaults.
// Collective; all throw when there are steps but none is good, when steps are missing, or when the configuration has changed.
std::unique_ptr<CheckpointReader> find_resume(Config& config, RunDirectory* directory, Phase& phase, Progress& progress,
                                              Communicator& control);

}  // namespace longwave
