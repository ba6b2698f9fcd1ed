#include "jobs/run_directory/run_lock.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "core/base/host.h"
#include "core/base/json.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/file_size_limit.h"
#include "tests/unit/run_directory/child_process.h"
#include "tests/unit/temporary_directory.h"

namespace longwave {
namespace {

using namespace std::chrono_literals;

constexpr RunLock::Patience impatient{20ms, 300ms, 200ms};

// What a process on another node left, where the file system carries no locks between nodes.
void write_foreign_record(const std::string& folder, int beat) {
  std::string text = to_line({{"pid", 4711}, {"host", "node17"}, {"since", "2026-01-01T00:00:00.000Z"}, {"slurm_job", "12"},
                              {"slurm_restart", 0}, {"beat", beat}});
  text.resize(511, ' ');
  text += '\n';
  File::update(folder + "/lock").write_at(text.data(), text.size(), 0);
}

struct SlurmJob {
  SlurmJob(const char* job, const char* restart) {
    ::setenv("SLURM_JOB_ID", job, 1);
    ::setenv("SLURM_RESTART_COUNT", restart, 1);
  }
  ~SlurmJob() {
    ::unsetenv("SLURM_JOB_ID");
    ::unsetenv("SLURM_RESTART_COUNT");
  }
};

TEST(RunLock, RefusesAndNamesALiveHolder) {
  TemporaryDirectory folder;
  const ChildProcess child([&] { return std::make_unique<RunLock>(folder.path()); });
  EXPECT_ERROR(RunLock(folder.path()), ExitCode::configuration,
               fmt::format("{} is in use by process {} on host {} since 20", folder.path(), child.pid(), host_name()));
}

TEST(RunLock, RefusesASecondTimeWithinAProcess) {
  TemporaryDirectory folder;
  const RunLock lock(folder.path());
  EXPECT_ERROR(RunLock(folder.path()), ExitCode::configuration, std::to_string(::getpid()));
}

TEST(RunLock, IsFreeOnceItsHolderLeftOrWasKilled) {
  TemporaryDirectory folder;
  { const RunLock lock(folder.path()); }
  EXPECT_EQ(std::filesystem::file_size(folder / "lock"), 0u);
  ChildProcess child([&] { return std::make_unique<RunLock>(folder.path()); });
  child.kill();
  EXPECT_GT(std::filesystem::file_size(folder / "lock"), 0u);
  const RunLock lock(folder.path());
}

TEST(RunLock, RefusesAHolderOnAnotherHostWhoseCountAdvances) {
  TemporaryDirectory folder;
  write_foreign_record(folder.path(), 1);
  std::atomic<bool> stop = false;
  std::thread node([&] {
    for (int beat = 2; !stop; ++beat) {
      write_foreign_record(folder.path(), beat);
      std::this_thread::sleep_for(10ms);
    }
  });
  EXPECT_ERROR(RunLock(folder.path(), impatient), ExitCode::configuration, "process 4711 on host node17 since 2026-01-01");
  stop = true;
  node.join();
}

TEST(RunLock, TakesOverFromAHostWhoseCountStandsStill) {
  TemporaryDirectory folder;
  write_foreign_record(folder.path(), 1);
  const RunLock lock(folder.path(), impatient);
  EXPECT_EQ(parse_json(read_file(folder / "lock"), "lock")["pid"], ::getpid());
}

TEST(RunLock, AdvancesItsCountWhileHeld) {
  TemporaryDirectory folder;
  const RunLock lock(folder.path(), impatient);
  std::uint64_t beat = 0;
  while (beat < 3) beat = parse_json(read_file(folder / "lock"), "lock")["beat"];  // ends by the test's limit if it never does
}

TEST(RunLock, WaitsForTheEarlierAttemptOfItsOwnSlurmJob) {
  TemporaryDirectory folder;
  const auto hold_as_first_attempt = [&] {
    const SlurmJob job("12", "0");
    return std::make_unique<RunLock>(folder.path());
  };
  {
    const ChildProcess child(hold_as_first_attempt, 0.3);
    const SlurmJob job("12", "1");
    const RunLock lock(folder.path());
  }
  const ChildProcess child(hold_as_first_attempt);
  {
    const SlurmJob job("12", "1");
    EXPECT_ERROR(RunLock(folder.path(), impatient), ExitCode::configuration, "in use");  // it does not wait for ever
  }
  const SlurmJob other("13", "1");
  EXPECT_ERROR(RunLock(folder.path()), ExitCode::configuration, "in use");
}

TEST(RunLock, TakesOverAtOnceWhenItsSlurmJobWasRequeued) {
  TemporaryDirectory folder;
  write_foreign_record(folder.path(), 1);
  const SlurmJob job("12", "1");
  const RunLock lock(folder.path(), {1h, 1h, 1h});
}

TEST(RunLock, LeavesNothingOnAFullDisk) {
  TemporaryDirectory folder;
  {
    const FileSizeLimit limit(100);
    EXPECT_ERROR(RunLock(folder.path()), ExitCode::io, folder / "lock");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_ERROR(RunLock(folder / "missing"), ExitCode::io, folder / "missing/lock");
}

}  // namespace
}  // namespace longwave
