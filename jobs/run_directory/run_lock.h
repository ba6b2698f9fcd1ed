// One live job per run directory. The kernel's lock decides within a node and wherever the file system carries locks between
// nodes. Where it does not, or when a node died, the record in the same file decides: its holder advances a count every few
// seconds, and a count that stands still is that of a dead process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "core/base/file.h"
#include "jobs/run_directory/byte_lock.h"

namespace longwave {

struct LockRecord {
  int pid = 0;
  std::string host;
  std::string since;          // time
  std::string slurm_job;      // "" outside Slurm
  int slurm_restart = 0;      // grows when Slurm requeues the job
  std::uint64_t beat = 0;
};

// For those who only look. Nothing: nobody holds the directory. The holder may have died since; then its count stands still.
std::optional<LockRecord> read_run_lock(const std::string& run_directory);

class RunLock {
 public:
  struct Patience {
    std::chrono::milliseconds beat{2000};        // the holder advances its count this often
    std::chrono::milliseconds stale{15000};      // another host's count that stands still this long is dead
    std::chrono::milliseconds requeued{120000};  // how long the same Slurm job's earlier attempt may take to end
  };

  // Throws config_error naming process, host and time when a live process holds the directory.
  explicit RunLock(const std::string& run_directory) : RunLock(run_directory, Patience{}) {}
  RunLock(const std::string& run_directory, Patience patience);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

 private:
  void write_record();
  void keep_beating(std::chrono::milliseconds interval);

  ByteLock lock_;
  LockRecord record_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool leaving_ = false;
  std::thread beating_;
};

}  // namespace longwave
