// What ranks write while they run: metrics, logs, heartbeats.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "core/base/file.h"
#include "core/base/host.h"
#include "core/base/timestamp.h"
#include "jobs/run_directory/heartbeat.h"
#include "jobs/run_directory/metrics_log.h"
#include "jobs/run_directory/rank_log.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/file_size_limit.h"
#include "tests/unit/temporary_directory.h"

namespace longwave {
namespace {

std::vector<std::int64_t> steps(const std::string& folder) {
  std::vector<std::int64_t> all;
  for (const Json& line : read_metrics(folder)) all.push_back(line["step"]);
  return all;
}

TEST(MetricsLog, GoesOnAfterAResumeWithoutAMissingOrRepeatedStep) {
  TemporaryDirectory folder;
  EXPECT_TRUE(read_metrics(folder.path()).empty());
  {
    MetricsLog metrics(folder.path());
    for (std::int64_t step = 10; step <= 50; step += 10) metrics.append({{"step", step}, {"loss", 1.0}});
    metrics.append({{"step", 50}, {"validation_loss", 2.0}});
    metrics.sync();
  }
  File::append(folder / "metrics.jsonl").write("{\"step\":60,\"lo");  // killed here; the last checkpoint was step 35
  MetricsLog metrics(folder.path());
  metrics.truncate_after(35);
  EXPECT_EQ(steps(folder.path()), (std::vector<std::int64_t>{10, 20, 30}));
  metrics.append({{"step", 40}, {"loss", 1.0}});
  EXPECT_EQ(steps(folder.path()), (std::vector<std::int64_t>{10, 20, 30, 40}));
  metrics.truncate_after(40);
  EXPECT_EQ(steps(folder.path()).size(), 4u);
  metrics.truncate_after(0);
  EXPECT_TRUE(steps(folder.path()).empty());
}

TEST(MetricsLog, RefusesALineWithoutAStepAndNamesADamagedOne) {
  TemporaryDirectory folder;
  MetricsLog metrics(folder.path());
  EXPECT_ERROR(metrics.append({{"loss", 1}}), ExitCode::bug, "step");
  File::append(folder / "metrics.jsonl").write("{\"step\":1}\ndamaged\n{\"step\":2}\n");
  EXPECT_ERROR(read_metrics(folder.path()), ExitCode::data, "metrics.jsonl:2");
  EXPECT_ERROR(MetricsLog(folder.path()).truncate_after(1), ExitCode::data, "metrics.jsonl:2");
}

TEST(MetricsLog, WritesALossThatIsNoNumberAsNull) {
  TemporaryDirectory folder;
  MetricsLog(folder.path()).append({{"step", 1}, {"loss", std::numeric_limits<double>::quiet_NaN()}});
  EXPECT_TRUE(read_metrics(folder.path()).at(0)["loss"].is_null());
}

TEST(RankLog, SaysWhenWhoWhereAndWhat) {
  TemporaryDirectory folder;
  make_directories(folder / "logs");
  RankLog log(folder.path(), 12);
  log.info("start");
  log.at(30, "save");
  log.warning("slow", {{"seconds", 1.5}, {"message", "the disk is slow"}});
  log.debug("dropped");
  const auto lines = read_rank_log(folder.path(), 12);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["phase"], "start");
  EXPECT_EQ(lines[0]["step"], 0);
  const Json& line = lines[1];
  EXPECT_TRUE(parse_timestamp(line["time"]));
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["rank"], 12);
  EXPECT_EQ(line["host"], host_name());
  EXPECT_EQ(line["step"], 30);
  EXPECT_EQ(line["phase"], "save");
  EXPECT_EQ(line["event"], "slow");
  EXPECT_EQ(line["seconds"], 1.5);
  EXPECT_EQ(line["message"], "the disk is slow");
  EXPECT_THAT(read_file(folder / "logs/rank-00012.jsonl"), testing::StartsWith("{\"time\":\"20"));
  EXPECT_TRUE(read_rank_log(folder.path(), 13).empty());
}

TEST(RankLog, GoesOnInTheNextAttemptAndKeepsDebugWhenAsked) {
  TemporaryDirectory folder;
  make_directories(folder / "logs");
  RankLog(folder.path(), 0).info("start");
  RankLog(folder.path(), 0, LogLevel::debug).debug("detail");
  EXPECT_EQ(read_rank_log(folder.path(), 0).size(), 2u);
}

TEST(RankLog, TakesEventsFromManyThreads) {
  TemporaryDirectory folder;
  make_directories(folder / "logs");
  RankLog log(folder.path(), 0);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&log, thread] {
      for (int i = 0; i < 200; ++i) {
        log.at(i, "phase");
        log.info("event", {{"thread", thread}});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read_rank_log(folder.path(), 0).size(), 800u);
}

TEST(RankLog, SaysWhereItCannotWrite) {
  TemporaryDirectory folder;
  EXPECT_ERROR(RankLog(folder.path(), 0), ExitCode::io, folder / "logs/rank-00000.jsonl");
  make_directories(folder / "logs");
  RankLog log(folder.path(), 0);
  const FileSizeLimit limit(50);
  EXPECT_ERROR(log.info("start"), ExitCode::io, folder / "logs/rank-00000.jsonl");
}

TEST(Heartbeat, ShowsWhereEachRankIsNow) {
  TemporaryDirectory folder;
  EXPECT_TRUE(read_heartbeats(folder.path()).empty());
  make_directories(folder / "heartbeats");
  Heartbeat second(folder.path(), 1);
  Heartbeat first(folder.path(), 0);
  first.beat("evaluate", 1000000);
  first.beat("save", 7);
  const auto records = read_heartbeats(folder.path());
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].rank, 0);
  EXPECT_EQ(records[0].phase, "save");
  EXPECT_EQ(records[0].step, 7);
  EXPECT_EQ(records[0].pid, ::getpid());
  EXPECT_EQ(records[0].host, host_name());
  EXPECT_TRUE(parse_timestamp(records[0].time));
  EXPECT_EQ(records[0].beat, records[1].beat + 2);
  EXPECT_EQ(records[1].phase, "start");
}

TEST(Heartbeat, CanBeReadWhileItBeats) {
  TemporaryDirectory folder;
  make_directories(folder / "heartbeats");
  Heartbeat heartbeat(folder.path(), 0);
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    std::uint64_t last = 0;
    while (!stop) {
      const auto records = read_heartbeats(folder.path());
      ASSERT_EQ(records.size(), 1u);
      ASSERT_GE(records[0].beat, last);
      ASSERT_EQ(static_cast<std::uint64_t>(records[0].step), records[0].beat - 1);
      last = records[0].beat;
    }
  });
  for (std::int64_t step = 1; step < 5000; ++step) heartbeat.beat(step % 2 == 0 ? "train" : "a longer phase", step);
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace longwave
