#include "core/optimizer/schedule.h"

#include <gtest/gtest.h>

namespace longwave {
namespace {

TEST(Schedule, WarmsUpLinearlyToThePeak) {
  const ScheduleConfig schedule{ScheduleKind::cosine, 10, 0.1, 0.2};
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, 0, 100), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, 4, 100), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, 9, 100), 1.0);
}

TEST(Schedule, CosineEndsAtTheFinalShare) {
  const ScheduleConfig schedule{ScheduleKind::cosine, 10, 0.1, 0.2};
  EXPECT_NEAR(learning_rate_at(schedule, 6e-4, 99, 100), 6e-5, 1e-12);
  // Half way between the last warm-up step (9) and the last step (99).
  EXPECT_NEAR(learning_rate_at(schedule, 1.0, 54, 100), 0.55, 1e-12);
  for (std::int64_t step = 10; step < 100; ++step) {
    EXPECT_LT(learning_rate_at(schedule, 1.0, step, 100), learning_rate_at(schedule, 1.0, step - 1, 100)) << step;
  }
}

TEST(Schedule, CosineWithoutWarmUpStartsAtThePeak) {
  EXPECT_DOUBLE_EQ(learning_rate_at({ScheduleKind::cosine, 0, 0.1, 0.2}, 1.0, 0, 50), 1.0);
}

TEST(Schedule, StableDecayStaysThenFallsLinearly) {
  const ScheduleConfig schedule{ScheduleKind::warmup_stable_decay, 5, 0.0, 0.2};
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, 50, 100), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(schedule, 1.0, 79, 100), 1.0);
  EXPECT_NEAR(learning_rate_at(schedule, 1.0, 89, 100), 0.5, 1e-12);
  EXPECT_NEAR(learning_rate_at(schedule, 1.0, 99, 100), 0.0, 1e-12);
}

TEST(Schedule, AOneStepRunUsesAFiniteRate) {
  EXPECT_DOUBLE_EQ(learning_rate_at({ScheduleKind::cosine, 1, 0.1, 0.2}, 1.0, 0, 1), 1.0);
}

}  // namespace
}  // namespace longwave
