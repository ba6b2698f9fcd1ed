#include "parallel/mpi/mpi_check.h"

#include <string>

#include "core/base/error.h"

namespace longwave {
namespace {

bool is_misuse(int error_class) {
  switch (error_class) {
    case MPI_ERR_ARG:
    case MPI_ERR_BUFFER:
    case MPI_ERR_COMM:
    case MPI_ERR_COUNT:
    case MPI_ERR_RANK:
    case MPI_ERR_REQUEST:
    case MPI_ERR_ROOT:
    case MPI_ERR_TAG:
    case MPI_ERR_TRUNCATE:
    case MPI_ERR_TYPE: return true;
    default: return false;
  }
}

std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return fmt::format("error {}", code);
  return {text, static_cast<std::size_t>(length)};
}

}  // namespace

void check_mpi(int code, const char* call, const char* file, int line) {
  if (code == MPI_SUCCESS) return;
  int error_class = MPI_ERR_UNKNOWN;
  int rank = -1;
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) {
    MPI_Error_class(code, &error_class);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  }
  if (is_misuse(error_class)) {
    throw Error(ExitCode::bug,
                fmt::format("internal error: {} on rank {}: {} ({}:{})", call, rank, error_text(code), file, line));
  }
  throw Error(ExitCode::lost, fmt::format("{} on rank {}: {}; a rank or the network between the nodes is lost ({}:{})", call,
                                          rank, error_text(code), file, line));
}

}  // namespace longwave
