#include "core/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace longwave {
namespace {

// Random123, kat_vectors, "philox4x32 10".
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32_10({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The values of a seed are part of what a run directory promises: these were recorded when the key derivation was fixed.
TEST(RandomKey, IsTheSameFunctionForEver) {
  const RandomKey key(1, "init", "model.norm.weight");
  EXPECT_EQ(key.bits(0), RandomKey(1, "init", "model.norm.weight").bits(0));
  EXPECT_EQ(key.bits(0), 0x35e89fe0ae335bc7u);
  EXPECT_EQ(key.bits(std::uint64_t{1} << 40, 3), 0xe9e2e8f0aa7898c4u);
}

TEST(RandomKey, SeparatesSeedPurposeNameIndexAndLane) {
  std::set<std::uint64_t> seen;
  std::size_t drawn = 0;
  for (const std::uint64_t seed : {0ull, 1ull, 2ull, 1ull << 32}) {
    for (const char* purpose : {"init", "fope", "order"}) {
      for (const char* name : {"", "a", "b", "ab"}) {
        for (const std::uint64_t index : {0ull, 1ull, 1ull << 32, 1ull << 63}) {
          for (const std::uint64_t lane : {0ull, 1ull, 1ull << 32}) {
            seen.insert(RandomKey(seed, purpose, name).bits(index, lane));
            ++drawn;
          }
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), drawn);
}

TEST(RandomKey, DoesNotConfuseTheEndOfThePurposeWithTheStartOfTheName) {
  EXPECT_NE(RandomKey(1, "ab", "c").bits(0), RandomKey(1, "a", "bc").bits(0));
  EXPECT_NE(RandomKey(1, "ab").bits(0), RandomKey(1, "a", "b").bits(0));
}

TEST(RandomKey, UniformIsInsideTheUnitIntervalAndFlat) {
  const RandomKey key(7, "test");
  const int draws = 1 << 17;
  std::vector<int> bins(64);
  for (int i = 0; i < draws; ++i) {
    const double u = key.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
    ++bins[static_cast<std::size_t>(u * 64)];
  }
  double chi_square = 0;
  const double expected = draws / 64.0;
  for (int count : bins) chi_square += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_square, 110);  // 63 degrees of freedom: above this by chance once in 4000 seeds
  EXPECT_GT(chi_square, 28);   // as rare: too even to be random
}

TEST(RandomKey, BelowReachesEveryValueEquallyAndNoOther) {
  const RandomKey key(7, "test", "below");
  for (const std::uint64_t bound : {1ull, 2ull, 7ull, 100ull}) {
    std::vector<int> bins(bound);
    const std::uint64_t draws = 2000 * bound;
    for (std::uint64_t i = 0; i < draws; ++i) {
      const std::uint64_t value = key.below(bound, i);
      ASSERT_LT(value, bound);
      ++bins[value];
    }
    for (int count : bins) EXPECT_NEAR(count, 2000, 5 * std::sqrt(2000.0)) << "bound " << bound;
  }
  const std::uint64_t wide = ~0ull;
  bool upper_half = false;
  for (std::uint64_t i = 0; i < 64; ++i) upper_half |= key.below(wide, i) > wide / 2;
  EXPECT_TRUE(upper_half);
}

// Abramowitz and Stegun, table 26.1 and 26.5, with more digits from the defining integral.
TEST(NormalQuantile, GivesTabulatedValues) {
  EXPECT_EQ(normal_quantile(0.5), 0);
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-14);
  EXPECT_NEAR(normal_quantile(0.25), -0.674489750196082, 1e-14);
  EXPECT_NEAR(normal_quantile(0.001), -3.090232306167813, 1e-14);
  EXPECT_NEAR(normal_quantile(1e-20), -9.262340089798408, 1e-13);
}

TEST(NormalQuantile, InvertsTheDistributionFunction) {
  for (double x = -8; x <= 5; x += 0.01) {  // above 5 the rounding of p near 1, not the inverse, decides the digits
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    const double p = normal_cdf(x);
    const double tolerance = 4e-15 * std::max(1.0, std::fabs(x)) + 2.3e-16 * p / density;
    EXPECT_NEAR(normal_quantile(p), x, tolerance) << x;
  }
}

TEST(RandomKey, NormalHasTheMomentsOfTheNormal) {
  const RandomKey key(3, "test", "normal");
  const int draws = 200000;
  double sum[5] = {};
  for (int i = 0; i < draws; ++i) {
    const double x = key.normal(static_cast<std::uint64_t>(i));
    for (int power = 1; power <= 4; ++power) sum[power] += std::pow(x, power) / draws;
  }
  const double error = 1 / std::sqrt(static_cast<double>(draws));
  EXPECT_NEAR(sum[1], 0, 4 * error);
  EXPECT_NEAR(sum[2], 1, 4 * std::sqrt(2.0) * error);
  EXPECT_NEAR(sum[3], 0, 4 * std::sqrt(15.0) * error);
  EXPECT_NEAR(sum[4], 3, 4 * std::sqrt(96.0) * error);
}

TEST(RandomKey, TruncatedNormalStaysInsideAndHasTheConditionedVariance) {
  const RandomKey key(3, "test", "truncated");
  const int draws = 200000;
  for (const double limit : {0.5, 2.0, 3.0}) {
    double mean = 0, square = 0, largest = 0;
    for (int i = 0; i < draws; ++i) {
      const double x = key.truncated_normal(limit, static_cast<std::uint64_t>(i));
      ASSERT_LE(std::fabs(x), limit);
      mean += x / draws;
      square += x * x / draws;
      largest = std::max(largest, std::fabs(x));
    }
    const double density = std::exp(-limit * limit / 2) / std::sqrt(2 * M_PI);
    const double variance = 1 - 2 * limit * density / (1 - 2 * normal_cdf(-limit));
    EXPECT_NEAR(mean, 0, 4 * std::sqrt(variance / draws)) << limit;
    EXPECT_NEAR(square, variance, 4 * 1.5 * variance / std::sqrt(static_cast<double>(draws))) << limit;
    EXPECT_GT(largest, 0.98 * limit) << limit;
  }
}

}  // namespace
}  // namespace longwave
