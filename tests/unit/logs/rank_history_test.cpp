#include "jobs/logs/rank_history.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/logs/event_text.h"

namespace longwave {
namespace {

using testing::HasSubstr;
using testing::Not;

// An event at `second` of one minute.
Json event(int second, const std::string& name, const std::string& phase, std::int64_t step, const Json& fields = Json::object()) {
  Json made = {{"time", fmt::format("2026-03-01T12:00:{:02}.000Z", second)},
               {"level", "info"},
               {"rank", 1},
               {"host", "node1"},
               {"step", step},
               {"phase", phase},
               {"event", name}};
  made.update(fields);
  return made;
}

Json step_event(int second, std::int64_t step, std::int64_t steps, double forward, double waited) {
  return event(second, "step", "train", step,
               {{"steps", steps},
                {"seconds", 9.0},
                {"data_seconds", 0.5},
                {"forward_seconds", forward},
                {"backward_seconds", 2.0},
                {"optimizer_seconds", 0.5},
                {"exposed_communication_seconds", waited}});
}

RankHistory history(const std::vector<Json>& events) {
  RankHistory made;
  for (const Json& each : events) made.add(each);
  return made;
}

TEST(RankHistory, CountsTheTimeOfEachPhaseAndOfTheOneUnderWay) {
  RankHistory rank = history({event(0, "start", "start", 0), event(3, "phase", "start", 0, {{"seconds", 3.5}, {"next", "train"}}),
                              step_event(20, 10, 10, 1, 0)});
  EXPECT_EQ(rank.phase(), "train");
  EXPECT_EQ(rank.step(), 10);
  EXPECT_EQ(rank.seconds_by_phase(), (std::map<std::string, double>{{"start", 3.5}, {"train", 17}}));
  rank.add({.rank = 1, .host = "node1", .phase = "train", .step = 14, .time = "2026-03-01T12:00:25.000Z"});
  EXPECT_EQ(rank.step(), 14);
  EXPECT_EQ(rank.seconds_by_phase().at("train"), 22);
  rank.add(event(30, "phase", "train", 16, {{"seconds", 27.0}, {"next", "end"}}));
  EXPECT_EQ(rank.phase(), "end");
  EXPECT_EQ(rank.seconds_by_phase(), (std::map<std::string, double>{{"start", 3.5}, {"train", 27}}));
}

TEST(RankHistory, TimeBetweenAttemptsBelongsToNoPhase) {
  const RankHistory rank =
      history({event(0, "start", "start", 0), event(2, "phase", "start", 0, {{"seconds", 2.0}, {"next", "train"}}),
               step_event(6, 10, 10, 1, 0), event(50, "start", "start", 0), event(51, "error", "start", 0)});
  EXPECT_EQ(rank.seconds_by_phase(), (std::map<std::string, double>{{"start", 3}, {"train", 4}}));
}

TEST(RankHistory, AnOlderHeartbeatChangesNothing) {
  RankHistory rank = history({step_event(20, 10, 10, 1, 0)});
  rank.add({.rank = 1, .host = "node9", .phase = "start", .step = 0, .time = "2026-03-01T11:00:00.000Z"});
  EXPECT_EQ(rank.step(), 10);
  EXPECT_EQ(rank.host(), "node1");
}

TEST(RankHistory, WorkIsWithoutTheWaitForOthers) {
  EXPECT_EQ(history({event(0, "start", "start", 0)}).work_per_step(), std::nullopt);
  EXPECT_DOUBLE_EQ(*history({step_event(1, 1, 1, 1, 0), step_event(9, 4, 3, 5, 4)}).work_per_step(), (4 + 4) / 4.0);
}

TEST(RankTable, MarksTheRankThatOthersWaitForAndCountsProblems) {
  std::map<int, RankHistory> ranks;
  ranks[0] = history({step_event(9, 4, 4, 1, 1)});
  ranks[1] = history({step_event(9, 4, 4, 1.8, 0), event(10, "bad_step", "train", 5, {{"level", "warning"}}),
                      event(11, "error", "train", 5, {{"level", "error"}, {"message", "broken"}})});
  const std::string table = rank_table(ranks);
  EXPECT_THAT(table, testing::MatchesRegex("rank  host   step  phase  work a step  slowest  +problems\n"
                                           "   0  node1     4  train       750 ms  +-\n"
                                           "   1  node1     5  train      1200 ms  \\+225 ms  1 error, 1 warning\n"));
  ASSERT_EQ(ranks[1].problems().size(), 2u);
}

TEST(RankTable, OneRankIsNotSlow) {
  std::map<int, RankHistory> ranks;
  ranks[0] = history({step_event(9, 4, 4, 1, 1)});
  EXPECT_THAT(rank_table(ranks), Not(HasSubstr("+")));
}

TEST(EventText, IsOneLineThatNamesTimesAndMessages) {
  const std::string line = event_text(event(5, "save", "train", 7, {{"stall_seconds", 0.25}, {"seconds", 1.5}, {"message", "a\nb"}}));
  EXPECT_EQ(line, "2026-03-01 12:00:05.000  step 7        train     save: stall 0.25 s, 1.5 s, a b");
  EXPECT_EQ(event_text(event(5, "bad_step", "train", 7, {{"level", "warning"}})),
            "2026-03-01 12:00:05.000  step 7        train     warning bad_step");
}

}  // namespace
}  // namespace longwave
