// Ends a job that has lost a rank. Every rank runs one watchdog thread, which reads the records that all ranks leave in the
// run directory and never calls MPI. A rank is lost when
//   - its process is gone (checked on its own host, many times a second, so that the name of a killed rank is known before
//     the launcher has ended the others);
//   - or it has not beaten for longer than the limit of its phase: stopped, stuck, or on a node that no longer answers.
// The ranks that wait for a stuck one are silent too. The one to blame is the one whose process is stopped, else whose own
// watchdog is silent, else that does not wait in a communicator, else the one furthest behind.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/file.h"

namespace longwave {

// Where a rank said it was, last.
struct RankBeat {
  int rank = 0;
  int pid = 0;  // 0: no record yet
  std::string host;
  std::string phase = "start";
  std::int64_t step = 0;
  std::uint64_t beat = 0;  // counts; clocks of nodes differ
};

// Seconds a rank may take between two beats; 0 is 20 times the slowest so far, at least 60 (and, before there was one, at
// least `start`).
struct WatchdogLimits {
  double start = 300;
  double step = 0;      // phase "train"
  double evaluate = 0;
  double save = 600;
};

struct LostRank {
  RankBeat last;
  std::string reason;  // "rank 2 on node7 (process 4711) has ended in phase train at step 120"
};

struct WatchdogOptions {
  int rank = 0;
  std::vector<std::string> hosts;  // of every rank (MpiEnvironment::hosts)
  std::string directory;           // shared by all ranks; the watchdogs' own signs of life are written below it
  WatchdogLimits limits;
  std::chrono::milliseconds interval{100};
  std::function<std::vector<RankBeat>()> read_beats;
  // Called once, in the watchdog's thread, before this process ends with ExitCode::lost: record the failure.
  std::function<void(const LostRank&)> on_loss;
};

class Watchdog {
 public:
  // Starts watching: behind a barrier that every rank reached after its first beat, so that no record of an earlier attempt
  // is left. Ranks whose phase is "end" are no longer watched; say so before leaving.
  explicit Watchdog(WatchdogOptions options);
  ~Watchdog() { stop(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  // What a watchdog leaves of itself, in a file of its own.
  struct Sign {
    std::int64_t pid = 0;
    std::uint64_t count = 0;
    std::uint64_t waits = 0;     // 1: for other ranks, in a communicator
    std::uint64_t ends_job = 0;  // 1: this process is about to end, having found another one lost
  };

  struct Peer {
    RankBeat last;
    Clock::time_point beaten;  // when `last.beat` was seen to change
    Sign sign;
    Clock::time_point sign_changed;
  };

  void watch();
  void observe(Clock::time_point now);
  Sign read_sign(int rank) const;
  std::optional<LostRank> find_dead() const;
  std::optional<LostRank> find_silent(Clock::time_point now) const;
  double limit_of(const std::string& phase) const;
  double& slowest_of(const std::string& phase);
  std::chrono::milliseconds turn(const LostRank& lost) const;
  bool verdict_given() const;
  [[noreturn]] void end_job(const LostRank& lost);

  WatchdogOptions options_;
  std::vector<Peer> peers_;
  WatchdogLimits slowest_{0, 0, 0, 0};
  File sign_file_;
  Sign sign_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace longwave
