#include "jobs/rank_watch.h"

#include <optional>

#include "jobs/run_directory/status.h"
#include "parallel/agreement.h"

namespace longwave {
namespace {

std::vector<RankBeat> read_beats(const std::string& run_directory) {
  std::vector<RankBeat> beats;
  for (const HeartbeatRecord& record : read_heartbeats(run_directory)) {
    beats.push_back({record.rank, record.pid, record.host, record.phase, record.step, record.beat});
  }
  return beats;
}

// Runs where the file system may be what is wrong, so a log that cannot be written must not keep the status from being tried.
void record_loss(const std::string& run_directory, Phase& phase, LossRecord record, const LostRank& lost) {
  const RankBeat& last = lost.last;
  try {
    phase.log().error("lost_rank", {{"message", lost.reason}, {"lost_rank", last.rank}, {"lost_host", last.host}});
  } catch (const Error& error) {
    fmt::print(stderr, "longwave: {}\n", error.what());
  }
  if (record == LossRecord::log_only) return;
  record_failure(run_directory, {last.rank, last.host, last.phase, last.step}, ExitCode::lost, lost.reason);
}

}  // namespace

std::unique_ptr<StartWatch> watch_start(const std::string& config, const std::vector<std::string>& overrides) {
  std::optional<Launch> launch = Launch::from_environment();
  if (!launch) return nullptr;
  double limit = WatchdogConfig{}.start;
  try {
    limit = load_config(config, overrides).watchdog.start;
  } catch (const Error&) {
    // The default stays.
  }
  return std::make_unique<StartWatch>(std::move(*launch), limit);
}

std::unique_ptr<Watchdog> watch_ranks(const MpiEnvironment& mpi, Communicator& control, const std::string& run_directory,
                                      const WatchdogConfig& limits, Phase& phase, LossRecord record) {
  // Signs of life of an earlier attempt, whose processes may have had the same numbers.
  together(control, [&] {
    if (control.rank() == 0) remove_directories(run_directory + "/watchdog");
  });
  WatchdogOptions options;
  options.rank = mpi.rank();
  options.hosts = mpi.hosts();
  options.directory = run_directory;
  options.limits = {limits.start, limits.step, limits.evaluate, limits.save};
  options.read_beats = [run_directory] { return read_beats(run_directory); };
  options.on_loss = [run_directory, &phase, record](const LostRank& lost) { record_loss(run_directory, phase, record, lost); };
  std::unique_ptr<Watchdog> watchdog;
  together(control, [&] { watchdog = std::make_unique<Watchdog>(std::move(options)); });
  return watchdog;
}

}  // namespace longwave
