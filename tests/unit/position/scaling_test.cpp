#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/position/position.h"

namespace longwave {
namespace {

constexpr std::int64_t head_dim = 64, train_length = 512;

PositionConfig rope(PositionScaling scaling) {
  PositionConfig config;
  config.kind = PositionKind::rope;
  config.scaling = scaling;
  return config;
}

PositionPlan scaled(const PositionConfig& config, std::int64_t length) {
  return scale_positions(plan_positions(config, head_dim, 8, train_length), config, head_dim, train_length, length);
}

TEST(PositionScaling, ChangesNothingWithinTheTrainingLength) {
  for (PositionScaling scaling :
       {PositionScaling::none, PositionScaling::interpolate, PositionScaling::ntk, PositionScaling::yarn}) {
    const PositionPlan plan = scaled(rope(scaling), 256);
    EXPECT_EQ(plan.frequencies, plan_positions(rope(scaling), head_dim, 8, train_length).frequencies);
    EXPECT_EQ(plan.table_scale, 1);
  }
}

TEST(PositionScaling, InterpolationDividesEveryFrequency) {
  const PositionPlan plan = scaled(rope(PositionScaling::interpolate), 2048);
  EXPECT_DOUBLE_EQ(plan.frequencies[0], 0.25);
  EXPECT_DOUBLE_EQ(plan.frequencies[16], 0.01 / 4);
}

TEST(PositionScaling, NtkIsRopeOfALargerTheta) {
  const PositionPlan plan = scaled(rope(PositionScaling::ntk), 2048);
  PositionConfig config = rope(PositionScaling::none);
  config.theta = 10000 * std::pow(4.0, 64.0 / 62);
  const PositionPlan expected = plan_positions(config, head_dim, 8, train_length);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_NEAR(plan.frequencies[i] / expected.frequencies[i], 1, 1e-12);
}

TEST(PositionScaling, YarnInterpolatesByCyclesAndRaisesTheTemperature) {
  const PositionPlan plan = scaled(rope(PositionScaling::yarn), 2048);
  const std::vector<double> plain = plan_positions(rope(PositionScaling::none), head_dim, 8, train_length).frequencies;
  for (std::size_t i = 0; i < 32; ++i) {
    const double cycles = 512 * plain[i] / (2 * std::numbers::pi);
    const double factor = plan.frequencies[i] / plain[i];
    if (cycles >= 32) EXPECT_DOUBLE_EQ(factor, 1) << i;
    else if (cycles <= 1) EXPECT_DOUBLE_EQ(factor, 0.25) << i;
    else EXPECT_NEAR(factor, 0.25 + 0.75 * (cycles - 1) / 31, 1e-12) << i;
  }
  EXPECT_DOUBLE_EQ(plan.table_scale, 0.1 * std::log(4.0) + 1);
}

TEST(PositionScaling, OfConstantPairsFollowsTheTemperature) {
  PositionConfig config = rope(PositionScaling::yarn);
  config.kind = PositionKind::p_rope;
  config.constant_weight = 2;
  const PositionPlan plan = scaled(config, 1024);
  EXPECT_FLOAT_EQ(plan.tail_cosine, static_cast<float>(0.1 * std::log(2.0) + 1));
  EXPECT_FLOAT_EQ(plan.tail_sine, plan.tail_cosine);
}

// A model trained with YaRN has what RoPE gets from it at evaluation, whatever length it is evaluated at.
TEST(PositionYarn, TrainsWithTheFrequenciesThatRopeGetsFromItAtEvaluation) {
  PositionConfig config;
  config.kind = PositionKind::yarn;
  config.original_context = train_length;
  const PositionPlan trained = plan_positions(config, head_dim, 8, 2048), evaluated = scaled(rope(PositionScaling::yarn), 2048);
  EXPECT_EQ(trained.frequencies, evaluated.frequencies);
  EXPECT_EQ(trained.table_scale, evaluated.table_scale);
  EXPECT_EQ(trained.columns, head_dim / 2);
  EXPECT_EQ(scale_positions(trained, config, head_dim, 2048, 8192).frequencies, trained.frequencies);
  EXPECT_FALSE(trained.has_coefficients);
}

// From the paper's equations: at 512 of 64 components w_0 = 1 completes 81 cycles and stays; w_12 completes 2.58; w_20, 0.26.
TEST(PositionYarn, FromHalfTheLengthHasThePublishedFrequencies) {
  PositionConfig config;
  config.kind = PositionKind::yarn;
  config.original_context = 512;
  const PositionPlan plan = plan_positions(config, head_dim, 8, 1024);
  EXPECT_DOUBLE_EQ(plan.frequencies[0], 1);
  EXPECT_NEAR(plan.frequencies[12], 0.0166156553, 1e-9);
  EXPECT_NEAR(plan.frequencies[20], 0.00158113883, 1e-11);
  EXPECT_NEAR(plan.table_scale, 1.06931472, 1e-8);
}

TEST(PositionYarn, NeedsAShorterLengthToComeFrom) {
  PositionConfig config;
  config.kind = PositionKind::yarn;
  for (const std::int64_t original : {0, 1024, 2048}) {
    config.original_context = original;
    EXPECT_THROW(plan_positions(config, head_dim, 8, 1024), Error) << original;
  }
}

TEST(PositionScaling, TakesAFixedFactor) {
  PositionConfig config = rope(PositionScaling::interpolate);
  config.scaling_factor = 8;
  EXPECT_DOUBLE_EQ(scaled(config, 256).frequencies[0], 0.125);
}

TEST(PositionScaling, IsForRopeAndItsRelativesOnly) {
  for (PositionKind kind : {PositionKind::fope, PositionKind::alibi, PositionKind::nope}) {
    PositionConfig config = rope(PositionScaling::yarn);
    config.kind = kind;
    EXPECT_THROW(scaled(config, 1024), Error);
  }
}

}  // namespace
}  // namespace longwave
