#include "jobs/step_guard.h"

#include <gtest/gtest.h>

#include <limits>

namespace longwave {
namespace {

StepResult with_norm(double norm) { return {1, 2.0, norm, true}; }
StepResult not_finite() { return {1, std::numeric_limits<double>::quiet_NaN(), 1, false}; }

TEST(StepGuard, AcceptsOrdinarySteps) {
  StepGuard guard(10);
  for (int step = 0; step < 500; ++step) EXPECT_EQ(guard.judge(with_norm(0.5 + 0.4 * (step % 2))), "");
  EXPECT_EQ(guard.state().accepted, 500);
  EXPECT_NEAR(guard.state().norm_average, 0.7, 0.05);
}

TEST(StepGuard, RefusesASpikeOnceItKnowsTheAverage) {
  StepGuard guard(10);
  EXPECT_EQ(guard.judge(with_norm(1000)), "");  // the first steps of a run are wild
  for (int step = 1; step < 400; ++step) guard.judge(with_norm(1));
  const double average = guard.state().norm_average;
  EXPECT_NE(guard.judge(with_norm(11 * average)), "");
  EXPECT_EQ(guard.state().norm_average, average) << "a spike must not raise what spikes are measured by";
  EXPECT_EQ(guard.judge(with_norm(9 * average)), "");
  EXPECT_EQ(guard.state().bad_in_a_row, 0);
}

TEST(StepGuard, RefusesWhatIsNotFiniteFromTheFirstStep) {
  StepGuard guard(0);
  EXPECT_NE(guard.judge(not_finite()).find("not finite"), std::string::npos);
  EXPECT_EQ(guard.state().accepted, 0);
}

TEST(StepGuard, GivesUpAfterTenBadStepsInARow) {
  StepGuard guard(0);
  for (int step = 0; step < 9; ++step) guard.judge(not_finite());
  EXPECT_FALSE(guard.hopeless());
  guard.judge(with_norm(1));
  for (int step = 0; step < 10; ++step) guard.judge(not_finite());
  EXPECT_TRUE(guard.hopeless());
}

TEST(StepGuard, NeverCallsASpikeWhenToldNotTo) {
  StepGuard guard(0);
  for (int step = 0; step < 200; ++step) guard.judge(with_norm(1));
  EXPECT_EQ(guard.judge(with_norm(1e9)), "");
}

TEST(StepGuard, GoesOnWhereItWas) {
  StepGuard whole(10), first(10), second(10);
  for (int step = 0; step < 300; ++step) {
    whole.judge(with_norm(1 + step % 3));
    (step < 120 ? first : second).judge(with_norm(1 + step % 3));
    if (step == 119) second.resume(first.state());
  }
  EXPECT_EQ(whole.state().norm_average, second.state().norm_average);
}

}  // namespace
}  // namespace longwave
