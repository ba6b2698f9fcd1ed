// The watchdogs of a job: one until there is a run directory, one by the heartbeats of the ranks in it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jobs/config/config.h"
#include "jobs/phase.h"
#include "parallel/communicator.h"
#include "parallel/mpi/mpi_environment.h"
#include "parallel/start_watch.h"
#include "parallel/watchdog.h"

namespace longwave {

// Before MPI_Init, with the limit watchdog.start; null for a program that was started alone. A configuration that cannot be read
// is told of later, by all ranks together: until then the default holds.
std::unique_ptr<StartWatch> watch_start(const std::string& config, const std::vector<std::string>& overrides);

enum class LossRecord { log_only, log_and_status };

// Collective, once every rank has its Phase, which outlives the watchdog. A loss is written to this rank's log and, where the
// job is the run itself, to status.json, before the process ends with ExitCode::lost. Throws SharedError.
std::unique_ptr<Watchdog> watch_ranks(const MpiEnvironment& mpi, Communicator& control, const std::string& run_directory,
                                      const WatchdogConfig& limits, Phase& phase, LossRecord record);

}  // namespace longwave
