#include "jobs/run_list/run_history.h"

#include <fstream>

#include "core/base/file.h"
#include "core/base/timestamp.h"
#include "jobs/run_directory/status.h"
#include "jobs/run_list/crash_loop.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/temporary_directory.h"

namespace longwave {
namespace {

class RunHistory : public testing::Test {
 protected:
  RunHistory() { make_directories(run() + "/logs"); }
  std::string run() const { return folder_ / "runs/a"; }

  // Attempts of Slurm job `job`, a minute apart, from the given minute of 2020 on.
  static std::string attempt(int number, int minute, const std::string& job, int restarts) {
    return fmt::format(R"({{"attempt": {}, "time": "2020-01-01T00:{:02}:00.000Z", "ranks": 2, "hosts": ["n{}", "n9"],)"
                       R"( "slurm": {{"job_id": "{}", "restarts": "{}"}}}})", number, minute, number, job, restarts);
  }
  void write_provenance(const std::string& attempts) const {
    std::ofstream(run() + "/provenance.json") << R"({"attempts": [)" << attempts << "]}";
  }
  void log(int rank, const std::string& lines) const {
    std::ofstream(fmt::format("{}/logs/rank-{:05}.jsonl", run(), rank)) << lines;
  }

 private:
  TemporaryDirectory folder_;
};

std::string line(const char* time, const char* level, int step, const char* event, const std::string& more = "") {
  return fmt::format(R"({{"time": "2020-01-01T{}Z", "level": "{}", "rank": 0, "host": "n", "step": {}, "phase": "train", )"
                     R"("event": "{}"{}}})" "\n", time, level, step, event, more);
}

TEST_F(RunHistory, SortsEventsIntoTheAttemptsTheyHappenedIn) {
  write_provenance(attempt(1, 0, "7", 0) + "," + attempt(2, 10, "7", 1));
  log(0, line("00:05:00.000", "info", 50, "signal", R"(, "message": "stopped by SIGUSR1")") +
             line("00:10:01.000", "info", 50, "resume") + line("00:11:00.000", "info", 60, "step"));
  log(1, line("00:04:00.000", "error", 40, "error", R"(, "message": "lost")"));
  const std::vector<RunAttempt> attempts = read_run_history(run());
  ASSERT_EQ(attempts.size(), 2u);
  ASSERT_EQ(attempts[0].events.size(), 2u);
  EXPECT_EQ(attempts[0].events[0].rank, 1);
  EXPECT_EQ(attempts[0].events[1].message, "stopped by SIGUSR1");
  ASSERT_EQ(attempts[1].events.size(), 1u);  // a step is no incident
  EXPECT_EQ(attempts[1].events[0].name, "resume");
  EXPECT_EQ(attempts[1].slurm_job, "7");
  EXPECT_EQ(attempts[1].slurm_restarts, 1);
  EXPECT_EQ(attempts[1].hosts, (std::vector<std::string>{"n2", "n9"}));
}

TEST_F(RunHistory, RefusesAFolderThatIsNoRun) {
  EXPECT_ERROR(read_run_history(run()), ExitCode::data, "no run directory");
}

TEST_F(RunHistory, FindsRunsAtAnyDepthAndNotWithinRuns) {
  write_provenance(attempt(1, 0, "7", 0));
  make_directories(run() + "/old");
  std::ofstream(run() + "/old/status.json") << "{}";
  EXPECT_EQ(find_runs(parent_directory(parent_directory(run()))), (std::vector<std::string>{run()}));
}

TEST_F(RunHistory, MeasuresTheSlowestStepAndSave) {
  log(0, line("00:00:00.000", "info", 0, "start") + line("00:00:01.000", "info", 10, "step", R"(, "seconds": 20)") +
             line("00:00:02.000", "info", 12, "step", R"(, "seconds": 10)") +
             line("00:00:03.000", "info", 12, "save", R"(, "seconds": 7)"));
  EXPECT_DOUBLE_EQ(measured_stop_time(run()).step, 5);
  EXPECT_DOUBLE_EQ(measured_stop_time(run()).save, 7);
}

TEST_F(RunHistory, StopsAJobAfterThreeAttemptsWithoutACheckpoint) {
  write_provenance(attempt(1, 0, "7", 0) + "," + attempt(2, 1, "7", 1));
  EXPECT_EQ(find_crash_loop(run(), "7", 2).reason, "");
  write_provenance(attempt(1, 0, "7", 0) + "," + attempt(2, 1, "7", 1) + "," + attempt(3, 2, "7", 2));
  Status status;
  status.state = RunState::failed;
  status.reason = "rank 1 was lost";
  ASSERT_TRUE(write_status(run(), status));
  const CrashLoop loop = find_crash_loop(run(), "7", 3);
  EXPECT_THAT(loop.reason, testing::HasSubstr("3 attempts of Slurm job 7"));
  EXPECT_THAT(loop.reason, testing::HasSubstr("rank 1 was lost"));
  stop_crash_loop(run(), loop);
  EXPECT_EQ(read_status(run())->reason, loop.reason);
}

TEST_F(RunHistory, LetsAJobSubmittedAnewTryAgain) {
  write_provenance(attempt(1, 0, "7", 0) + "," + attempt(2, 1, "7", 1) + "," + attempt(3, 2, "7", 2) + "," +
                   attempt(4, 3, "8", 0));
  EXPECT_EQ(find_crash_loop(run(), "8", 1).reason, "");
}

TEST_F(RunHistory, CountsACheckpointAsProgress) {
  write_provenance(attempt(1, 0, "7", 0) + "," + attempt(2, 1, "7", 1) + "," + attempt(3, 2, "7", 2));
  make_directories(run() + "/checkpoints/step-00000010.partial");
  std::ofstream(run() + "/checkpoints/step-00000010.partial/manifest.json") << "{}";
  EXPECT_NE(find_crash_loop(run(), "7", 3).reason, "") << "a checkpoint that was never committed";
  make_directories(run() + "/checkpoints/step-00000010");
  std::ofstream(run() + "/checkpoints/step-00000010/manifest.json") << "{}";  // now, later than those attempts
  EXPECT_EQ(find_crash_loop(run(), "7", 3).reason, "");
}

TEST_F(RunHistory, StopsAJobThatNeverGetsToARunDirectory) {
  EXPECT_EQ(find_crash_loop("nowhere", "7", 2).reason, "");
  EXPECT_NE(find_crash_loop("nowhere", "7", 3).reason, "");
}

}  // namespace
}  // namespace longwave
