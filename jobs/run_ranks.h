// Runs the body of a job on every rank and turns however it ends into messages, status and one exit code.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "jobs/phase.h"
#include "parallel/communicator.h"
#include "parallel/mpi/mpi_environment.h"
#include "parallel/start_watch.h"
#include "parallel/watchdog.h"

namespace longwave {

// What the body has opened by the time it fails.
struct JobTrace {
  std::string run_directory;  // "" before there is one
  Phase* phase = nullptr;
  std::unique_ptr<Watchdog> watchdog;
  std::unique_ptr<StartWatch> start_watch;  // until the watchdog watches
};

// A failure shared by all ranks is printed once, by rank 0, and recorded in status.json; its code is returned on all. A failure
// of this rank alone (a bug, no memory) is printed and recorded by it, and ends the job: the others may be waiting for it.
// Returning, every rank has finalised MPI.
ExitCode run_ranks(MpiEnvironment& mpi, Communicator& control, const std::function<ExitCode(JobTrace&)>& body);

}  // namespace longwave
