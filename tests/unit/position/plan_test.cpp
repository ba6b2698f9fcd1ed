#include "core/position/position.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "core/base/error.h"

namespace longwave {
namespace {

PositionConfig of(PositionKind kind) {
  PositionConfig config;
  config.kind = kind;
  return config;
}

std::int64_t rows(const PositionPlan& plan) { return static_cast<std::int64_t>(plan.frequencies.size()); }

struct FopeShape {
  std::int64_t head_dim, length, rows, columns, heads;
  double gain, std;
};

TEST(FopePlan, HasThePublishedSizesAndDeviations) {
  const FopeShape shapes[] = {
      {64, 512, 16, 16, 8, .3, .02165},  {128, 512, 31, 31, 8, .4, .01627},  {128, 512, 31, 31, 16, .6, .02223},
      {64, 1024, 18, 16, 8, .3, .02080}, {128, 1024, 36, 32, 8, .4, .01508}, {128, 1024, 36, 32, 16, .6, .02080},
  };
  for (const FopeShape& shape : shapes) {
    SCOPED_TRACE(fmt::format("head_dim {} length {} gain {}", shape.head_dim, shape.length, shape.gain));
    PositionConfig config;
    config.gain = shape.gain;
    const PositionPlan plan = plan_positions(config, shape.head_dim, shape.heads, shape.length);
    EXPECT_EQ(rows(plan), shape.rows);
    EXPECT_EQ(plan.columns, shape.columns);
    EXPECT_EQ(plan.pairs, shape.head_dim / 2);
    EXPECT_TRUE(plan.has_coefficients);
    EXPECT_NEAR(plan.coefficient_std, shape.std, 5e-6);
    EXPECT_EQ(plan.tail_cosine, 1);
    EXPECT_EQ(plan.tail_sine, 1);
  }
}

TEST(FopePlan, KeepsTheFrequenciesThatCompleteACycleInTraining) {
  const std::int64_t lengths[] = {128, 256, 512, 1024, 2048, 4096, 8192};
  const std::int64_t head_dims[] = {32, 64, 128};
  const std::int64_t expected[7][3] = {{6, 11, 21},  {7, 13, 26},  {8, 16, 31}, {9, 18, 36},
                                       {11, 21, 41}, {12, 23, 46}, {13, 25, 50}};
  for (std::size_t l = 0; l < 7; ++l) {
    for (std::size_t h = 0; h < 3; ++h) {
      const PositionPlan plan = plan_positions(PositionConfig{}, head_dims[h], 8, lengths[l]);
      EXPECT_EQ(rows(plan), expected[l][h]) << "head_dim " << head_dims[h] << " length " << lengths[l];
      EXPECT_GE(plan.frequencies.back(), 2 * std::numbers::pi / static_cast<double>(lengths[l]));
    }
  }
}

TEST(FopePlan, KeepsAFrequencyEqualToTheFloor) {
  for (std::int64_t i = 0; i < 16; ++i) {  // floor_cycles such that frequency i is the floor, up to rounding
    PositionConfig config;
    config.cap = PositionCap::none;
    config.floor_cycles = std::pow(10000.0, -2.0 * static_cast<double>(i) / 32) * 777 / (2 * std::numbers::pi);
    EXPECT_EQ(rows(plan_positions(config, 32, 1, 777)), i + 1);
  }
}

TEST(FopePlan, CapsTheColumns) {
  PositionConfig config;
  EXPECT_EQ(plan_positions(config, 64, 8, 8192).columns, 16);
  config.cap = PositionCap::none;
  EXPECT_EQ(plan_positions(config, 64, 8, 8192).columns, 25);
  config.floor_cycles = 0;
  EXPECT_EQ(plan_positions(config, 64, 8, 8192).columns, 32);
  config.cap = PositionCap::pairs;
  config.cap_pairs = 5;
  EXPECT_EQ(plan_positions(config, 64, 8, 8192).columns, 5);
  EXPECT_EQ(rows(plan_positions(config, 64, 8, 8192)), 32);
}

TEST(FopePlan, WithoutGainNeedsNoMatrices) {
  PositionConfig config;
  config.gain = 0;
  const PositionPlan plan = plan_positions(config, 64, 8, 1024);
  EXPECT_FALSE(plan.has_coefficients);
  EXPECT_EQ(rows(plan), 16);
  EXPECT_EQ(plan.columns, 16);
  config.gain = .3;
  config.series = false;
  EXPECT_EQ(plan_positions(config, 64, 8, 1024).frequencies, plan.frequencies);
  EXPECT_FALSE(plan_positions(config, 64, 8, 1024).has_coefficients);
}

TEST(FopePlan, WithoutGainStillNeedsMatricesToLearnOrToSpreadTheIdentity) {
  PositionConfig config;
  config.gain = 0;
  config.learnable = true;
  EXPECT_TRUE(plan_positions(config, 64, 8, 1024).has_coefficients);
  config.learnable = false;
  config.identity = PositionIdentity::step;
  EXPECT_TRUE(plan_positions(config, 64, 8, 1024).has_coefficients);
  EXPECT_EQ(plan_positions(config, 64, 8, 1024).coefficient_std, 0);
}

TEST(FopePlan, EqualsRopeWithoutGainFloorAndCap) {
  PositionConfig config;
  config.gain = 0;
  config.floor_cycles = 0;
  config.cap = PositionCap::none;
  const PositionPlan fope = plan_positions(config, 64, 8, 512);
  const PositionPlan rope = plan_positions(of(PositionKind::rope), 64, 8, 512);
  EXPECT_EQ(fope.frequencies, rope.frequencies);
  EXPECT_EQ(fope.columns, fope.pairs);
  EXPECT_FALSE(fope.has_coefficients);
}

TEST(FopePlan, ZeroPhaseIsTheSineOfTheTail) {
  PositionConfig config;
  config.zero_phase = 0;
  EXPECT_EQ(plan_positions(config, 64, 8, 512).tail_sine, 0);
}

TEST(FopePlan, ExtraFrequenciesFillTheSameRange) {
  PositionConfig config;
  const PositionPlan plain = plan_positions(config, 64, 8, 512);
  config.extra_frequencies = 15;
  const PositionPlan dense = plan_positions(config, 64, 8, 512);
  ASSERT_EQ(rows(dense), 31);
  EXPECT_EQ(dense.columns, 16);
  EXPECT_EQ(dense.frequencies.front(), plain.frequencies.front());
  EXPECT_EQ(dense.frequencies.back(), plain.frequencies.back());
  for (std::size_t i = 0; i < 16; ++i) EXPECT_NEAR(dense.frequencies[2 * i] / plain.frequencies[i], 1, 1e-12);
}

TEST(FopePlan, RefusesWhatLeavesNothing) {
  PositionConfig config;
  config.floor_cycles = 100;
  EXPECT_THROW(plan_positions(config, 64, 8, 512), Error);
  config = {};
  EXPECT_THROW(plan_positions(config, 64, 8, 6), Error);  // no frequency completes a cycle in six positions
  EXPECT_THROW(plan_positions(config, 63, 8, 512), Error);
  EXPECT_THROW(plan_positions(config, 2, 8, 512), Error);
  config.cap = PositionCap::pairs;
  config.cap_pairs = 33;
  EXPECT_THROW(plan_positions(config, 64, 8, 512), Error);
  config = {};
  config.series = false;
  config.learnable = true;
  EXPECT_THROW(plan_positions(config, 64, 8, 512), Error);
  config = {};
  config.theta = 1;
  EXPECT_THROW(plan_positions(config, 64, 8, 512), Error);
  config = {};
  config.gain = -1;
  EXPECT_THROW(plan_positions(config, 64, 8, 512), Error);
}

TEST(RopePlan, HasEveryFrequency) {
  const PositionPlan plan = plan_positions(of(PositionKind::rope), 8, 2, 16);
  ASSERT_EQ(rows(plan), 4);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(plan.frequencies[i], std::pow(10, -static_cast<double>(i)));
  EXPECT_EQ(plan.columns, 4);
  EXPECT_EQ(plan.tail_sine, 0);
}

TEST(UnrotatedPlan, LeavesQueriesAndKeysAlone) {
  for (PositionKind kind : {PositionKind::alibi, PositionKind::nope}) {
    const PositionPlan plan = plan_positions(of(kind), 64, 8, 512);
    EXPECT_FALSE(plan.active());
    EXPECT_EQ(plan.tail_cosine, 1);
    EXPECT_EQ(plan.tail_sine, 0);
  }
}

TEST(PRopePlan, RotatesTheTopFrequencies) {
  PositionConfig config = of(PositionKind::p_rope);
  const PositionPlan plan = plan_positions(config, 64, 8, 512);
  ASSERT_EQ(rows(plan), 24);
  EXPECT_EQ(plan.columns, 24);
  const std::vector<double> rope = plan_positions(of(PositionKind::rope), 64, 8, 512).frequencies;
  EXPECT_TRUE(std::equal(plan.frequencies.begin(), plan.frequencies.end(), rope.begin()));
  EXPECT_EQ(plan.tail_cosine, 1);
  EXPECT_EQ(plan.tail_sine, 0);
  config.fraction = 0;
  EXPECT_THROW(plan_positions(config, 64, 8, 512), Error);
  config.fraction = 1.1;
  EXPECT_THROW(plan_positions(config, 64, 8, 512), Error);
}

TEST(PRopePlan, ConstantPairsCountAsOftenAsTheirWeight) {
  PositionConfig config = of(PositionKind::p_rope);
  for (double weight : {0.0, 0.25, 1.0, 1.5, 2.0, 5.0}) {
    config.constant_weight = weight;
    const PositionPlan plan = plan_positions(config, 64, 8, 512);
    EXPECT_NEAR(plan.tail_cosine * plan.tail_cosine + plan.tail_sine * plan.tail_sine, weight, 1e-6);
  }
}

TEST(PRopePlan, OfWeightTwoIsFopeWithoutGain) {
  PositionConfig control = of(PositionKind::p_rope);
  control.fraction = 0.5;
  control.constant_weight = 2;
  PositionConfig config;
  config.gain = 0;
  const PositionPlan fope = plan_positions(config, 64, 8, 512);
  const PositionPlan plan = plan_positions(control, 64, 8, 512);
  EXPECT_EQ(plan.frequencies, fope.frequencies);
  EXPECT_EQ(plan.tail_cosine, fope.tail_cosine);
  EXPECT_EQ(plan.tail_sine, fope.tail_sine);
}

TEST(ClippedRopePlan, FadesTheLowestFrequencies) {
  PositionConfig config = of(PositionKind::clipped_rope);
  config.clipped = 5;
  const PositionPlan plan = plan_positions(config, 64, 8, 512);
  const std::vector<double> rope = plan_positions(of(PositionKind::rope), 64, 8, 512).frequencies;
  ASSERT_EQ(rows(plan), 32);
  EXPECT_EQ(plan.columns, 32);
  for (std::size_t i = 0; i <= 27; ++i) EXPECT_EQ(plan.frequencies[i], rope[i]);  // the first of the clipped has factor 1
  EXPECT_NEAR(plan.frequencies[28] / rope[28], 0.5 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_NEAR(plan.frequencies[29] / rope[29], 0.5, 1e-12);
  EXPECT_EQ(plan.frequencies[31], 0);
}

TEST(ClippedRopePlan, FadesThoseBelowTheFloorByDefault) {
  const PositionPlan plan = plan_positions(of(PositionKind::clipped_rope), 64, 8, 512);
  const std::vector<double> rope = plan_positions(of(PositionKind::rope), 64, 8, 512).frequencies;
  EXPECT_EQ(plan.frequencies[16], rope[16]);
  EXPECT_LT(plan.frequencies[17], rope[17]);
  PositionConfig config = of(PositionKind::clipped_rope);
  config.clipped = 33;
  EXPECT_THROW(plan_positions(config, 64, 8, 512), Error);
}

TEST(Alibi, SlopesAreAGeometricSequenceOverAllHeads) {
  EXPECT_THAT(alibi_slopes(8, 0, 8), ::testing::ElementsAre(.5f, .25f, .125f, .0625f, .03125f, 0x1p-6f, 0x1p-7f, 0x1p-8f));
  EXPECT_THAT(alibi_slopes(8, 6, 2), ::testing::ElementsAre(0x1p-7f, 0x1p-8f));
  EXPECT_THAT(alibi_slopes(6, 2, 1), ::testing::ElementsAre(::testing::FloatEq(std::exp2(-4.0f))));
}

TEST(PositionKind, IsNamedAsInAJobFile) {
  EXPECT_STREQ(name_of(PositionKind::p_rope), "p-rope");
  EXPECT_STREQ(name_of(PositionKind::clipped_rope), "clipped-rope");
  EXPECT_STREQ(name_of(PositionKind::fope), "fope");
}

}  // namespace
}  // namespace longwave
