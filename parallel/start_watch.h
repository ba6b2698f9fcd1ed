// Watches the ranks of this host until there is a run directory through which the Watchdog can: a rank that is stopped in
// MPI_Init, or while it reads configuration and data, keeps all the others waiting inside MPI.
//
// Each rank leaves a record in a folder of its launch below TMPDIR (default /tmp), and a thread of its own looks at the records
// of the others. When the start has taken longer than the limit and another rank of this host is stopped, that one is named on
// stderr and the job ends with ExitCode::lost. A start that is merely slow goes on. A host's only rank is seen by none.
// What killed launches left there long ago is removed on the way.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace longwave {

// What the launcher told this program, before MPI_Init.
struct Launch {
  std::string id;  // the same for all ranks of the launch, and for no other's on this host
  int rank = 0;
  int size = 1;

  // From the environment of Open MPI's mpirun and of srun; nothing for a program that was started alone.
  static std::optional<Launch> from_environment();
};

class StartWatch {
 public:
  // Construct before MPI_Init, destroy when the Watchdog watches. `limit` in seconds. Where the folder cannot be written there is
  // a line on stderr, and no watch.
  StartWatch(Launch launch, double limit);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  void watch();
  std::string find_lost() const;  // what to say of the rank that is lost; "" when none is
  [[noreturn]] void end_job(const std::string& lost) const;

  Launch launch_;
  double limit_;
  std::string folder_;
  std::string record_path_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace longwave
