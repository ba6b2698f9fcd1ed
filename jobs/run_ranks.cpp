#include "jobs/run_ranks.h"

#include <fmt/format.h>

#include <cstdio>
#include <new>

#include "jobs/run_directory/status.h"
#include "parallel/agreement.h"

namespace longwave {
namespace {

void record(const JobTrace& trace, int rank, ExitCode code, const std::string& reason) {
  if (trace.phase != nullptr) trace.phase->log().error("error", {{"message", reason}});
  if (trace.run_directory.empty()) return;
  const std::string phase = trace.phase != nullptr ? trace.phase->name() : "start";
  record_failure(trace.run_directory, rank, phase, trace.phase != nullptr ? trace.phase->step() : 0, static_cast<int>(code), reason);
}

[[noreturn]] void end_alone(const JobTrace& trace, int rank, ExitCode code, const std::string& message) {
  fmt::print(stderr, "longwave: rank {}: {}\n", rank, message);
  record(trace, rank, code, message);
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
      record(trace, error.rank(), code, error.what());
    }
  } catch (const Error& error) {
    end_alone(trace, mpi.rank(), error.code(), error.what());
  } catch (const std::bad_alloc&) {
    end_alone(trace, mpi.rank(), ExitCode::bug, "internal error: out of memory; see `longwave plan` for what a run needs");
  } catch (const std::exception& error) {
    end_alone(trace, mpi.rank(), ExitCode::bug, fmt::format("internal error: {}", error.what()));
  }
  mpi.finalize();
  return code;
}

}  // namespace longwave
