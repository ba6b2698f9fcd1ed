#include "jobs/run_ranks.h"

#include <fmt/format.h>

#include <cstdio>
#include <new>

#include "jobs/run_directory/status.h"
#include "parallel/agreement.h"

namespace longwave {
namespace {

void record(const JobTrace& trace, const MpiEnvironment& mpi, int rank, ExitCode code, const std::string& reason) {
  if (trace.phase != nullptr) trace.phase->log().error("error", {{"message", reason}});
  if (trace.run_directory.empty()) return;
  FailurePlace place{rank, mpi.hosts()[static_cast<std::size_t>(rank)], "start", 0};
  if (trace.phase != nullptr) {
    place.phase = trace.phase->name();
    place.step = trace.phase->step();
  }
  record_failure(trace.run_directory, place, code, reason);
}

void leave(JobTrace& trace) {
  if (trace.phase != nullptr) trace.phase->leave();
  trace.watchdog.reset();
  trace.start_watch.reset();
}

// The others may be waiting for this rank. They are told goodbye first: what there is to say has been said.
[[noreturn]] void end_alone(JobTrace& trace, const MpiEnvironment& mpi, ExitCode code, const std::string& message) {
  fmt::print(stderr, "longwave: rank {}: {}\n", mpi.rank(), message);
  try {
    record(trace, mpi, mpi.rank(), code, message);
    leave(trace);
  } catch (const Error& error) {
    fmt::print(stderr, "longwave: rank {}: {}\n", mpi.rank(), error.what());
  }
  MpiEnvironment::abort_job(static_cast<int>(code));
}

}  // namespace

ExitCode run_ranks(MpiEnvironment& mpi, Communicator& control, const std::function<ExitCode(JobTrace&)>& body) {
  JobTrace trace;
  ExitCode code = ExitCode::done;
  try {
    code = body(trace);
  } catch (const SharedError& error) {
    code = error.code();
    if (control.rank() == 0) {
      fmt::print(stderr, "longwave: {}{}\n", error.rank() > 0 ? fmt::format("rank {}: ", error.rank()) : "", error.what());
      record(trace, mpi, error.rank(), code, error.what());
    }
  } catch (const Error& error) {
    end_alone(trace, mpi, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    end_alone(trace, mpi, ExitCode::bug, "internal error: out of memory; see `longwave plan` for what a run needs");
  } catch (const std::exception& error) {
    end_alone(trace, mpi, ExitCode::bug, fmt::format("internal error: {}", error.what()));
  }
  leave(trace);
  mpi.finalize();
  return code;
}

}  // namespace longwave
