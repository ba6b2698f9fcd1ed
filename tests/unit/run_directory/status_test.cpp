#include "jobs/run_directory/status.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "core/base/host.h"
#include "core/base/json.h"
#include "core/base/timestamp.h"
#include "jobs/run_directory/byte_lock.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/temporary_directory.h"

namespace longwave {
namespace {

Status running(int attempt, std::int64_t step) {
  Status status;
  status.state = RunState::running;
  status.attempt = attempt;
  status.step = step;
  status.steps = 100;
  status.checkpoint = "step-00000010";
  status.phase = "train";
  return status;
}

TEST(Status, IsReadBackAsWritten) {
  TemporaryDirectory folder;
  EXPECT_FALSE(read_status(folder.path()));
  Status status = running(2, 17);
  status.state = RunState::stopped;
  status.exit_code = 75;
  status.reason = "SIGTERM \"quoted\"";
  status.rank = 3;
  EXPECT_TRUE(write_status(folder.path(), status));
  const Status read = read_status(folder.path()).value();
  EXPECT_EQ(read.state, RunState::stopped);
  EXPECT_EQ(read.step, 17);
  EXPECT_EQ(read.steps, 100);
  EXPECT_EQ(read.attempt, 2);
  EXPECT_EQ(read.checkpoint, "step-00000010");
  EXPECT_EQ(read.exit_code, 75);
  EXPECT_EQ(read.reason, "SIGTERM \"quoted\"");
  EXPECT_EQ(read.rank, 3);
  EXPECT_EQ(read.host, host_name());
  EXPECT_EQ(read.phase, "train");
  EXPECT_TRUE(parse_timestamp(read.time));
}

TEST(Status, HasTheFieldsAndWordsThatOtherProgramsRead) {
  TemporaryDirectory folder;
  write_status(folder.path(), running(1, 5));
  const Json json = read_json(folder / "status.json");
  for (const char* field : {"state", "step", "steps", "attempt", "checkpoint", "exit_code", "reason", "rank", "host", "phase",
                            "time"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  EXPECT_EQ(json["state"], "running");
  EXPECT_TRUE(json["exit_code"].is_null());
}

TEST(Status, MalformedIsBadDataNamingTheFile) {
  TemporaryDirectory folder;
  for (const char* text : {"", "{", "[]", "{}", R"({"state":"running"})"}) {
    write_file_atomically(folder / "status.json", text);
    EXPECT_ERROR(read_status(folder.path()), ExitCode::data, folder / "status.json");
  }
  write_status((remove_file(folder / "status.json"), folder.path()), running(1, 1));
  Json json = read_json(folder / "status.json");
  json["state"] = "asleep";
  write_json_atomically(folder / "status.json", json);
  EXPECT_ERROR(read_status(folder.path()), ExitCode::data, "unknown state \"asleep\"");
}

TEST(Status, AFailureOfAnyRankKeepsWhatWasKnownAndNamesItself) {
  TemporaryDirectory folder;
  write_status(folder.path(), running(1, 16));
  record_failure(folder.path(), {2, "node2", "evaluate", 17}, ExitCode::bug, "internal error");
  const Status failed = read_status(folder.path()).value();
  EXPECT_EQ(failed.state, RunState::failed);
  EXPECT_EQ(failed.rank, 2);
  EXPECT_EQ(failed.host, "node2");
  EXPECT_EQ(failed.phase, "evaluate");
  EXPECT_EQ(failed.step, 17);
  EXPECT_EQ(failed.steps, 100);
  EXPECT_EQ(failed.checkpoint, "step-00000010");
  EXPECT_EQ(failed.exit_code, 70);
  EXPECT_EQ(failed.reason, "internal error");
}

TEST(Status, TheFirstFailureOfAnAttemptStaysAndTheNextAttemptReplacesIt) {
  TemporaryDirectory folder;
  write_status(folder.path(), running(1, 16));
  record_failure(folder.path(), {2, "node2", "train", 17}, ExitCode::io, "disk full");
  record_failure(folder.path(), {0, "node0", "train", 17}, ExitCode::lost, "rank 2 was lost");
  EXPECT_FALSE(write_status(folder.path(), running(1, 18)));
  EXPECT_EQ(read_status(folder.path())->reason, "disk full");
  EXPECT_TRUE(write_status(folder.path(), running(2, 10)));
  EXPECT_EQ(read_status(folder.path())->state, RunState::running);
}

TEST(Status, WhatKilledARankStandsBeforeWhatTheOthersSaw) {
  TemporaryDirectory folder;
  write_status(folder.path(), running(2, 17));
  record_out_of_memory(folder.path(), "out of memory");
  EXPECT_EQ(read_status(folder.path())->reason, "out of memory");

  write_status(folder.path(), running(3, 18));
  record_failure(folder.path(), {1, "node2", "train", 19}, ExitCode::lost, "rank 1 is lost");
  record_out_of_memory(folder.path(), "out of memory");
  const Status status = read_status(folder.path()).value();
  EXPECT_EQ(status.state, RunState::failed);
  EXPECT_EQ(status.attempt, 3);
  EXPECT_EQ(status.exit_code, out_of_memory_code);
  EXPECT_EQ(status.reason, "out of memory (rank 1 is lost)");
  EXPECT_EQ(status.host, "node2");
}

TEST(Status, NobodyEnteredADirectoryWithoutOne) {
  TemporaryDirectory folder;
  record_out_of_memory(folder / "absent", "out of memory");
  EXPECT_FALSE(std::filesystem::exists(folder / "absent"));
}

TEST(Status, OneOfManyFailuresAtOnceWinsWhole) {
  TemporaryDirectory folder;
  write_status(folder.path(), running(1, 16));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 8; ++rank) {
    ranks.emplace_back([&, rank] { record_failure(folder.path(), {rank, "node1", "train", rank}, ExitCode::bug, std::to_string(rank)); });
  }
  for (std::thread& rank : ranks) rank.join();
  const Status failed = read_status(folder.path()).value();
  EXPECT_EQ(failed.state, RunState::failed);
  EXPECT_EQ(failed.step, failed.rank);
  EXPECT_EQ(failed.reason, std::to_string(failed.rank));
}

TEST(Status, AFailureIsRecordedThoughAStuckProcessHoldsTheLock) {
  TemporaryDirectory folder;
  write_status(folder.path(), running(1, 16));
  const ByteLock stuck = ByteLock::try_lock(File::update(folder / "lock"), ByteLock::status_byte);
  ASSERT_TRUE(stuck.held());
  record_failure(folder.path(), {1, "node1", "train", 17}, ExitCode::bug, "late");
  EXPECT_EQ(read_status(folder.path())->reason, "late");
}

TEST(Status, AFailureThatCannotBeRecordedIsToldOnStandardError) {
  testing::internal::CaptureStderr();
  record_failure("/nowhere/at/all", {1, "node1", "train", 17}, ExitCode::bug, "x");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("/nowhere/at/all"));
}

}  // namespace
}  // namespace longwave
