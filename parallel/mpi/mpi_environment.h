// MPI of this process, from MPI_Init to MPI_Finalize. Only the main thread calls MPI.
#pragma once

#include <string>
#include <vector>

namespace longwave {

class MpiEnvironment {
 public:
  // MPI_Init_thread. Refuses (ExitCode::configuration) a launch that gave every program a world of its own.
  MpiEnvironment(int* argc, char*** argv);
  // Does nothing: a rank that leaves by an exception must not wait for the others. Without `finalize` the launcher takes
  // the end of this process for a failure and ends the job, which is what an error wants.
  ~MpiEnvironment() = default;
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  // MPI_Finalize, collective; everything that other ranks may want must be on disk by now.
  void finalize();
  // Ends every rank of the job with `code`, from a failure on this one alone.
  [[noreturn]] static void abort_job(int code) noexcept;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& host() const { return hosts_[static_cast<std::size_t>(rank_)]; }
  const std::vector<std::string>& hosts() const { return hosts_; }  // of every rank
  int local_rank() const { return local_rank_; }                    // among the ranks that share this node's memory
  int local_size() const { return local_size_; }

 private:
  void gather_hosts();

  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::vector<std::string> hosts_;
};

// Before MPI_Init, as Open MPI ends a step of several tasks that srun started without PMI in a page of text about how it was
// built. Throws config_error when no launcher left the means by which the ranks find each other.
void check_launcher();

// N programs that each believe to be rank 0 of 1 would all write one run directory. Throws config_error when MPI counts
// one rank but the launcher started several: OMPI_COMM_WORLD_SIZE > 1 or, that unset, SLURM_NTASKS > 1 (srun without PMI).
void check_launch(int mpi_size);

}  // namespace longwave
