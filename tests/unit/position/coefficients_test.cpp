#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/position/position.h"

namespace longwave {
namespace {

constexpr std::int64_t heads = 16;

std::vector<float> draw(const PositionPlan& plan, const PositionConfig& config, std::int64_t first = 0,
                        std::int64_t count = heads) {
  return draw_coefficients(plan, config, 7, 3, "cosine", first, count);
}

TEST(FopeCoefficients, AreTheIdentityPlusANormalPart) {
  PositionConfig config;
  config.gain = 0.6;
  const PositionPlan plan = plan_positions(config, 128, heads, 1024);  // D = 36, d = 32
  const std::vector<float> w = draw(plan, config);
  ASSERT_EQ(w.size(), 16u * 36 * 32);
  double sum = 0, squares = 0;
  for (std::size_t e = 0; e < w.size(); ++e) {
    const std::size_t i = e / 32 % 36, j = e % 32;
    const double x = (w[e] - (i == j ? 1.0 : 0.0)) / plan.coefficient_std;
    sum += x;
    squares += x * x;
  }
  const double count = static_cast<double>(w.size());
  EXPECT_NEAR(sum / count, 0, 4 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 4 * std::sqrt(2 / count));
}

TEST(FopeCoefficients, OfSomeHeadsAreASliceOfAll) {
  PositionConfig config;
  const PositionPlan plan = plan_positions(config, 64, heads, 512);
  const std::vector<float> all = draw(plan, config);
  const std::vector<float> part = draw(plan, config, 5, 3);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 5 * 16 * 16));
}

TEST(FopeCoefficients, DifferByHeadKindLayerAndSeed) {
  PositionConfig config;
  const PositionPlan plan = plan_positions(config, 64, heads, 512);
  const std::vector<float> base = draw_coefficients(plan, config, 7, 3, "cosine", 0, 1);
  EXPECT_EQ(base, draw_coefficients(plan, config, 7, 3, "cosine", 0, 1));
  EXPECT_NE(base, draw_coefficients(plan, config, 7, 3, "cosine", 1, 1));
  EXPECT_NE(base, draw_coefficients(plan, config, 7, 3, "sine", 0, 1));
  EXPECT_NE(base, draw_coefficients(plan, config, 7, 4, "cosine", 0, 1));
  EXPECT_NE(base, draw_coefficients(plan, config, 8, 3, "cosine", 0, 1));
}

// D = 18, d = 16: the step is ceil(18 / 16) = 2, so columns 9 to 15 get no identity.
TEST(FopeCoefficients, PutTheIdentityOnTheFirstRowsOrEveryStep) {
  PositionConfig config;
  config.gain = 0;
  config.learnable = true;
  for (PositionIdentity identity : {PositionIdentity::first, PositionIdentity::step}) {
    config.identity = identity;
    const PositionPlan plan = plan_positions(config, 64, heads, 1024);
    const std::vector<float> w = draw(plan, config, 2, 1);
    for (std::int64_t i = 0; i < 18; ++i) {
      for (std::int64_t j = 0; j < 16; ++j) {
        const bool one = i == (identity == PositionIdentity::first ? j : 2 * j);
        EXPECT_EQ(w[static_cast<std::size_t>(i * 16 + j)], one ? 1 : 0) << i << ", " << j;
      }
    }
  }
}

TEST(FopeCoefficients, HaveColumnsOfUnitNormWhenAsked) {
  PositionConfig config;
  config.normalize_columns = true;
  const PositionPlan plan = plan_positions(config, 64, heads, 1024);
  const std::vector<float> w = draw(plan, config, 0, 2);
  for (std::size_t head = 0; head < 2; ++head) {
    for (std::size_t j = 0; j < 16; ++j) {
      double sum = 0;
      for (std::size_t i = 0; i < 18; ++i) sum += std::abs(w[(head * 18 + i) * 16 + j]);
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  }
}

}  // namespace
}  // namespace longwave
