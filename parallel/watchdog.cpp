#include "parallel/watchdog.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "core/base/error.h"
#include "parallel/communicator.h"
#include "parallel/process_state.h"

namespace longwave {
namespace {

constexpr double least_limit = 60;     // seconds, of limits found out by watching
constexpr double times_slowest = 20;
constexpr int beats_per_sign = 5;      // polls between two signs of life of a watchdog: they cross the file system
// Which rank speaks: they take turns, so that one line is printed and not one a rank.
constexpr std::chrono::milliseconds turn_length{200};

std::string sign_path(const std::string& directory, int rank) { return fmt::format("{}/watchdog/rank-{:05}", directory, rank); }

std::string describe(const RankBeat& rank, const std::string& what) {
  return fmt::format("rank {} on {} (process {}) {} in phase {} at step {}", rank.rank, rank.host, rank.pid, what, rank.phase,
                     rank.step);
}

}  // namespace

Watchdog::Watchdog(WatchdogOptions options) : options_(std::move(options)) {
  LONGWAVE_CHECK(options_.read_beats && options_.on_loss && options_.interval.count() > 0);
  const Clock::time_point now = Clock::now();
  for (std::size_t rank = 0; rank < options_.hosts.size(); ++rank) {
    RankBeat unseen;
    unseen.rank = static_cast<int>(rank);
    unseen.host = options_.hosts[rank];
    peers_.push_back({unseen, now, {}, now});
  }
  make_directories(options_.directory + "/watchdog");
  sign_.pid = getpid();
  sign_file_ = File::update(sign_path(options_.directory, options_.rank));
  sign_file_.write_at(&sign_, sizeof sign_, 0);
  thread_ = std::thread([this] { watch(); });
}

void Watchdog::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::watch() {
  // Signals are for the main thread.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);

  Clock::time_point before = Clock::now();
  for (std::uint64_t poll = 0;; ++poll) {
    const Clock::time_point now = Clock::now();
    // Slurm suspends and resumes whole jobs: time in which this process did not run counts against nobody.
    if (now - before > 20 * options_.interval) {
      for (Peer& peer : peers_) peer.beaten = peer.sign_changed = now;
    }
    before = now;
    std::optional<LostRank> lost;
    try {
      if (poll % beats_per_sign == 0) {
        ++sign_.count;
        sign_.waits = waits_for_ranks() ? 1 : 0;
        sign_file_.write_at(&sign_, sizeof sign_, 0);
        observe(now);
      }
      lost = find_dead();
      if (!lost) lost = find_silent(now);
    } catch (const Error&) {
      // A full disk or a file caught half-written is the trainer's to report; the next poll looks again.
    }
    std::unique_lock lock(mutex_);
    if (lost && !wake_.wait_for(lock, turn(*lost), [this] { return stopping_; })) end_job(*lost);
    if (wake_.wait_for(lock, options_.interval, [this] { return stopping_; })) return;
  }
}

void Watchdog::observe(Clock::time_point now) {
  for (const RankBeat& beat : options_.read_beats()) {
    if (beat.rank < 0 || static_cast<std::size_t>(beat.rank) >= peers_.size()) continue;
    Peer& peer = peers_[static_cast<std::size_t>(beat.rank)];
    if (beat.pid == peer.last.pid && beat.beat == peer.last.beat) continue;
    if (beat.pid == peer.last.pid) {
      double& slowest = slowest_of(peer.last.phase);
      slowest = std::max(slowest, std::chrono::duration<double>(now - peer.beaten).count());
    }
    peer.last = beat;
    peer.beaten = now;
  }
  for (Peer& peer : peers_) {
    const Sign sign = read_sign(peer.last.rank);
    if (sign.count != peer.sign.count) peer.sign_changed = now;
    peer.sign = sign;
  }
}

Watchdog::Sign Watchdog::read_sign(int rank) const {
  const std::string path = sign_path(options_.directory, rank);
  Sign sign;
  if (access(path.c_str(), R_OK) != 0) return sign;
  const File file = File::open(path);
  if (file.size() >= sizeof sign) file.read_at(&sign, sizeof sign, 0);
  return sign;
}

std::optional<LostRank> Watchdog::find_dead() const {
  const std::string& here = options_.hosts[static_cast<std::size_t>(options_.rank)];
  for (const Peer& peer : peers_) {
    const bool visible = peer.last.pid != 0 && options_.hosts[static_cast<std::size_t>(peer.last.rank)] == here;
    if (!visible || peer.last.phase == "end" || process_state(peer.last.pid) != 'X') continue;
    // It may have said goodbye since it was last observed.
    for (const RankBeat& beat : options_.read_beats()) {
      if (beat.rank == peer.last.rank && beat.pid == peer.last.pid && beat.phase != "end") {
        return LostRank{beat, describe(beat, "has ended")};
      }
    }
  }
  return std::nullopt;
}

std::optional<LostRank> Watchdog::find_silent(Clock::time_point now) const {
  const auto silence = [now](Clock::time_point since) { return std::chrono::duration<double>(now - since).count(); };
  const auto over = [&](const Peer& peer) {
    return peer.last.phase != "end" && silence(peer.beaten) > limit_of(peer.last.phase);
  };
  if (std::none_of(peers_.begin(), peers_.end(), over)) return std::nullopt;

  const std::string& here = options_.hosts[static_cast<std::size_t>(options_.rank)];
  const auto stopped = [&](const Peer& peer) {
    return peer.last.pid != 0 && peer.last.host == here && is_stopped(process_state(peer.last.pid));
  };
  // Ten missed signs of life: its process does not run, or its node does not answer.
  const double quiet = 10 * beats_per_sign * std::chrono::duration<double>(options_.interval).count();
  const auto suspicion = [&](const Peer& peer) {
    return std::tuple(!stopped(peer), silence(peer.sign_changed) < quiet, peer.last.pid != 0, peer.sign.waits != 0,
                      peer.last.step, peer.beaten);
  };
  const Peer* suspect = nullptr;
  for (const Peer& peer : peers_) {
    if (peer.last.phase == "end") continue;
    if (suspect == nullptr || suspicion(peer) < suspicion(*suspect)) suspect = &peer;
  }
  const std::string what =
      fmt::format("{} for {:.0f} s, limit {:.0f} s,", stopped(*suspect) ? "is stopped and silent" : "is silent",
                  silence(suspect->beaten), limit_of(suspect->last.phase));
  return LostRank{suspect->last, describe(suspect->last, what)};
}

double& Watchdog::slowest_of(const std::string& phase) {
  if (phase == "evaluate") return slowest_.evaluate;
  if (phase == "save") return slowest_.save;
  if (phase == "train") return slowest_.step;
  return slowest_.start;
}

double Watchdog::limit_of(const std::string& phase) const {
  const WatchdogLimits& limits = options_.limits;
  const auto found = [&](double configured, double slowest) {
    if (configured > 0) return configured;
    return slowest > 0 ? std::max(least_limit, times_slowest * slowest) : std::max(least_limit, limits.start);
  };
  if (phase == "evaluate") return found(limits.evaluate, slowest_.evaluate);
  if (phase == "save") return found(limits.save, slowest_.save);
  if (phase == "train") return found(limits.step, slowest_.step);
  return found(limits.start, slowest_.start);
}

// The ranks below that still run come first. Those on the lost rank's host saw it first, and it is gone for good there.
std::chrono::milliseconds Watchdog::turn(const LostRank& lost) const {
  int before = 0;
  for (const Peer& peer : peers_) {
    if (peer.last.rank < options_.rank && peer.last.rank != lost.last.rank && peer.last.phase != "end") ++before;
  }
  return std::min(before, 10) * turn_length;
}

// Whether another rank has already spoken. What is seen after that, its own end and stopped processes that the launcher
// wakes to end them, is consequence and not cause.
bool Watchdog::verdict_given() const {
  return std::any_of(peers_.begin(), peers_.end(), [this](const Peer& peer) {
    const Sign sign = read_sign(peer.last.rank);
    return sign.ends_job != 0 && sign.pid == peer.last.pid;
  });
}

void Watchdog::end_job(const LostRank& lost) {
  try {
    if (verdict_given()) _exit(static_cast<int>(ExitCode::lost));
    sign_.ends_job = 1;
    sign_file_.write_at(&sign_, sizeof sign_, 0);
  } catch (const Error&) {
    // Then another watchdog speaks too.
  }
  std::fprintf(stderr, "longwave: %s; the job ends (seen by rank %d). Requeue it: it goes on from its last checkpoint\n",
               lost.reason.c_str(), options_.rank);
  std::fflush(stderr);
  options_.on_loss(lost);
  // No destructors and no MPI: the main thread is inside MPI, waiting for a rank that will not answer. The launcher ends
  // the others, stopped ones too, when this process leaves with an error.
  _exit(static_cast<int>(ExitCode::lost));
}

}  // namespace longwave
