// The watchdog of a job: its ranks watch each other's heartbeats in the run directory.
#pragma once

#include <memory>
#include <string>

#include "jobs/config/config.h"
#include "jobs/phase.h"
#include "parallel/communicator.h"
#include "parallel/mpi/mpi_environment.h"
#include "parallel/watchdog.h"

namespace longwave {

enum class LossRecord { log_only, log_and_status };

// Collective, once every rank has its Phase, which outlives the watchdog. A loss is written to this rank's log and, where the
// job is the run itself, to status.json, before the process ends with ExitCode::lost. Throws SharedError.
std::unique_ptr<Watchdog> watch_ranks(const MpiEnvironment& mpi, Communicator& control, const std::string& run_directory,
                                      const WatchdogConfig& limits, Phase& phase, LossRecord record);

}  // namespace longwave
