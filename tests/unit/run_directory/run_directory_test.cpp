#include "jobs/run_directory/run_directory.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "core/base/file.h"
#include "jobs/run_directory/build_info.h"
#include "jobs/run_directory/heartbeat.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/file_size_limit.h"
#include "tests/unit/run_directory/child_process.h"
#include "tests/unit/temporary_directory.h"

namespace longwave {
namespace {

const RunFacts facts{{"longwave", "train", "a.yaml"}, {"n1", "n1", "n2", "n2"}, 2, 2, "cpu (avx2)", "fp32"};

TEST(RunDirectory, IsMadeWithItsParentsAndTellsItsState) {
  TemporaryDirectory folder;
  RunDirectory run(folder / "runs/a", 100, facts);
  EXPECT_EQ(run.attempt(), 1);
  EXPECT_FALSE(run.previous());
  EXPECT_TRUE(std::filesystem::is_directory(run.file("logs")));
  EXPECT_TRUE(std::filesystem::is_directory(run.file("heartbeats")));
  const Status start = read_status(run.path()).value();
  EXPECT_EQ(start.state, RunState::starting);
  EXPECT_EQ(start.steps, 100);
  EXPECT_EQ(start.attempt, 1);
  run.write_config("run: {}\n");
  EXPECT_EQ(read_file(run.file("config.yaml")), "run: {}\n");
  run.report(RunState::running, "train", 1);
  EXPECT_EQ(read_status(run.path())->state, RunState::running);
  EXPECT_EQ(read_status(run.path())->phase, "train");
  run.set_checkpoint("step-00000010");
  run.metrics().append({{"step", 10}});
  run.finish(RunState::stopped, 12, ExitCode::requeue, "SIGTERM");
  const Status end = read_status(run.path()).value();
  EXPECT_EQ(end.state, RunState::stopped);
  EXPECT_EQ(end.step, 12);
  EXPECT_EQ(end.exit_code, 75);
  EXPECT_EQ(end.reason, "SIGTERM");
  EXPECT_EQ(end.checkpoint, "step-00000010");
}

TEST(RunDirectory, CountsAttemptsAndCleansUpAfterTheOneBefore) {
  TemporaryDirectory folder;
  {
    RunDirectory run(folder / "a", 100, facts);
    run.set_checkpoint("step-00000010");
    run.metrics().append({{"step", 10}});
    const Heartbeat heartbeat(run.path(), 31);
    write_file_atomically(run.file("status.json.123.partial"), "{");
  }
  ::setenv("SLURM_JOB_ID", "4242", 1);
  RunDirectory run(folder / "a", 200, facts);
  ::unsetenv("SLURM_JOB_ID");
  EXPECT_EQ(run.attempt(), 2);
  EXPECT_EQ(run.previous()->attempt, 1);
  EXPECT_EQ(read_status(run.path())->attempt, 2);
  EXPECT_EQ(read_status(run.path())->steps, 200);
  EXPECT_EQ(read_status(run.path())->checkpoint, "step-00000010");
  EXPECT_TRUE(read_heartbeats(run.path()).empty());
  EXPECT_FALSE(std::filesystem::exists(run.file("status.json.123.partial")));
  EXPECT_EQ(read_metrics(run.path()).size(), 1u);
  const Json provenance = read_provenance(run.path());
  ASSERT_EQ(provenance["attempts"].size(), 2u);
  EXPECT_TRUE(provenance["attempts"][0]["slurm"].is_null());
  EXPECT_EQ(provenance["attempts"][1]["slurm"]["job_id"], "4242");
}

TEST(RunDirectory, SaysWhatMadeIt) {
  TemporaryDirectory folder;
  const RunDirectory run(folder / "a", 100, facts);
  const Json provenance = read_provenance(run.path());
  EXPECT_EQ(provenance["commit"], build_info().commit);
  EXPECT_FALSE(build_info().commit.empty());
  EXPECT_EQ(provenance["command"], (std::vector<std::string>{"longwave", "train", "a.yaml"}));
  EXPECT_EQ(provenance["hosts"], (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(provenance["ranks"], 4);
  EXPECT_EQ(provenance["mesh"]["data"], 2);
  EXPECT_EQ(provenance["mesh"]["tensor"], 2);
  EXPECT_EQ(provenance["precision"], "fp32");
  EXPECT_THAT(provenance["build"]["compiler"].get<std::string>(), testing::MatchesRegex(".+ [0-9.]+"));
  for (const char* library : {"oneDNN", "MPI", "C library"}) {
    EXPECT_THAT(provenance["libraries"][library].get<std::string>(), testing::MatchesRegex(".*[0-9]+\\..*")) << library;
  }
}

TEST(RunDirectory, RefusesOneInUseAndLeavesItAlone) {
  TemporaryDirectory folder;
  const ChildProcess child([&] { return std::make_unique<RunDirectory>(folder / "a", 100, facts); });
  const std::string status = read_file(folder / "a/status.json");
  EXPECT_ERROR(RunDirectory(folder / "a", 100, facts), ExitCode::configuration,
               fmt::format("run directory {} is in use by process {}", folder / "a", child.pid()));
  EXPECT_EQ(read_file(folder / "a/status.json"), status);
  EXPECT_EQ(read_provenance(folder / "a")["attempts"].size(), 1u);
}

TEST(RunDirectory, LeavesNothingHalfMade) {
  TemporaryDirectory folder;
  for (const rlim_t bytes : {0, 100, 600}) {  // the lock's record, provenance.json and status.json cannot be written
    const FileSizeLimit limit(bytes);
    EXPECT_ERROR(RunDirectory(folder / "runs/a", 100, facts), ExitCode::io, folder / "runs/a");
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << bytes;
  }
  write_file_atomically(folder / "file", "x");
  EXPECT_ERROR(RunDirectory(folder / "file", 100, facts), ExitCode::io, folder / "file");
  EXPECT_ERROR(RunDirectory(folder / "file/a", 100, facts), ExitCode::io, folder / "file");
  EXPECT_EQ(read_file(folder / "file"), "x");
}

TEST(RunDirectory, KeepsWhatWasThereWhenItCannotBeEntered) {
  TemporaryDirectory folder;
  make_directories(folder / "a");
  write_file_atomically(folder / "a/logs", "a file where a folder must be");
  EXPECT_ERROR(RunDirectory(folder / "a", 100, facts), ExitCode::io, folder / "a/logs");
  const std::filesystem::directory_iterator entries(folder / "a");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(RunDirectory, DoesNotEnterOverAStatusItCannotRead) {
  TemporaryDirectory folder;
  make_directories(folder / "a");
  write_file_atomically(folder / "a/status.json", "");
  EXPECT_ERROR(RunDirectory(folder / "a", 100, facts), ExitCode::data, folder / "a/status.json");
}

TEST(RunDirectory, DoesNotHideAnotherRanksFailureBehindItsOwnEnd) {
  TemporaryDirectory folder;
  RunDirectory run(folder / "a", 100, facts);
  run.report(RunState::running, "train", 1);
  record_failure(run.path(), {2, "node2", "train", 5}, ExitCode::bug, "rank 2 threw");
  run.report(RunState::running, "evaluate", 6);
  run.finish(RunState::failed, 6, ExitCode::lost, "a rank was lost");
  EXPECT_EQ(read_status(run.path())->reason, "rank 2 threw");
  EXPECT_EQ(read_status(run.path())->rank, 2);
}

}  // namespace
}  // namespace longwave
