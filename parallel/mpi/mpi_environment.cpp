#include "parallel/mpi/mpi_environment.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "core/base/error.h"
#include "parallel/mpi/mpi_check.h"

namespace longwave {

MpiEnvironment::MpiEnvironment(int* argc, char*** argv) {
  check_launcher();
  // A rank that writes to one that was just killed must live to say which is lost.
  if (std::signal(SIGPIPE, SIG_IGN) == SIG_ERR) throw system_error("signal", "SIGPIPE", errno, __FILE__, __LINE__);
  int provided = MPI_THREAD_SINGLE;
  LONGWAVE_MPI(MPI_Init_thread, argc, argv, MPI_THREAD_FUNNELED, &provided);
  LONGWAVE_MPI(MPI_Comm_set_errhandler, MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  LONGWAVE_MPI(MPI_Comm_set_errhandler, MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (provided < MPI_THREAD_FUNNELED) {
    throw config_error("this MPI library allows no threads (MPI_Init_thread gave level {}); use one built with thread support",
                       provided);
  }
  LONGWAVE_MPI(MPI_Comm_rank, MPI_COMM_WORLD, &rank_);
  LONGWAVE_MPI(MPI_Comm_size, MPI_COMM_WORLD, &size_);
  check_launch(size_);

  MPI_Comm node = MPI_COMM_NULL;
  LONGWAVE_MPI(MPI_Comm_split_type, MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node);
  LONGWAVE_MPI(MPI_Comm_rank, node, &local_rank_);
  LONGWAVE_MPI(MPI_Comm_size, node, &local_size_);
  LONGWAVE_MPI(MPI_Comm_free, &node);
  gather_hosts();
}

void MpiEnvironment::gather_hosts() {
  constexpr int width = MPI_MAX_PROCESSOR_NAME;
  char name[width] = {};
  int length = 0;
  LONGWAVE_MPI(MPI_Get_processor_name, name, &length);
  std::vector<char> names(static_cast<std::size_t>(width) * static_cast<std::size_t>(size_));
  LONGWAVE_MPI(MPI_Allgather, name, width, MPI_CHAR, names.data(), width, MPI_CHAR, MPI_COMM_WORLD);
  for (int rank = 0; rank < size_; ++rank) {
    const char* entry = names.data() + static_cast<std::size_t>(rank) * width;
    hosts_.emplace_back(entry, strnlen(entry, width));
  }
}

void MpiEnvironment::finalize() {
  LONGWAVE_MPI(MPI_Finalize);
}

void MpiEnvironment::abort_job(int code) noexcept {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

void check_launcher() {
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks == nullptr || std::atol(tasks) <= 1) return;
  for (const char* means : {"PMIX_RANK", "PMI_RANK", "PMI_FD", "OMPI_COMM_WORLD_SIZE"}) {
    if (std::getenv(means) != nullptr) return;
  }
  throw config_error("srun started {} tasks without PMI, so they cannot find each other; start them with `srun --mpi=pmix` "
                     "(`srun --mpi=list` shows what this Slurm offers) or with `mpirun`",
                     tasks);
}

void check_launch(int mpi_size) {
  if (mpi_size > 1) return;
  const char* variable = "OMPI_COMM_WORLD_SIZE";
  const char* value = std::getenv(variable);
  if (value == nullptr) {
    variable = "SLURM_NTASKS";
    value = std::getenv(variable);
  }
  if (value == nullptr || std::atol(value) <= 1) return;
  throw config_error("{}={} programs were started, but to MPI each is rank 0 of 1 and all would write one run directory; "
                     "start them with `mpirun`, or with `srun --mpi=pmix` (`srun --mpi=list` shows what this Slurm offers)",
                     variable, value);
}

}  // namespace longwave
