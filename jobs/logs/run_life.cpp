#include "jobs/logs/run_life.h"

#include <optional>

#include "jobs/run_directory/run_lock.h"
#include "jobs/run_directory/status.h"

namespace longwave {

bool RunLife::has_ended() {
  const std::optional<LockRecord> holder = read_run_lock(run_directory_);
  if (!holder) return true;
  // An evaluation holds a run that has ended long ago.
  const std::optional<Status> status = read_status(run_directory_);
  if (status && status->exit_code && status->time >= holder->since) return true;
  const auto now = std::chrono::steady_clock::now();
  if (holder->beat != beat_) {
    beat_ = holder->beat;
    beaten_ = now;
  }
  return now - beaten_ > RunLock::Patience{}.stale;
}

}  // namespace longwave
