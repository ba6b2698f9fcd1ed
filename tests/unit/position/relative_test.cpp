// How far FoPE is from a relative encoding: the logit of positions (n, m) against that of (n + 1, m + 1).
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/base/random.h"
#include "core/position/position.h"

namespace longwave {
namespace {

struct Pair {
  double cosine;
  double sine;
};

// z of pair j at position t for one head, from the definition.
Pair factor(const PositionPlan& plan, const std::vector<float>& cosine, const std::vector<float>& sine, std::int64_t j,
            std::int64_t t) {
  if (j >= plan.columns) return {plan.tail_cosine, plan.tail_sine};
  const auto column = static_cast<std::size_t>(j), columns = static_cast<std::size_t>(plan.columns);
  if (!plan.has_coefficients) {
    const double angle = static_cast<double>(t) * plan.frequencies[column];
    return {std::cos(angle), std::sin(angle)};
  }
  Pair z{0, 0};
  for (std::size_t i = 0; i < plan.frequencies.size(); ++i) {
    const double angle = static_cast<double>(t) * plan.frequencies[i];
    z.cosine += std::cos(angle) * cosine[i * columns + column];
    z.sine += std::sin(angle) * sine[i * columns + column];
  }
  return z;
}

// Root mean square, over pairs that vary, unit q and k of random direction, and positions, of the difference of logits.
double shift_error(double gain, std::int64_t head_dim, std::int64_t heads) {
  PositionConfig config;
  config.gain = gain;
  const PositionPlan plan = plan_positions(config, head_dim, heads, 512);
  std::vector<float> cosine, sine;
  if (plan.has_coefficients) {
    cosine = draw_coefficients(plan, config, 1, 0, "cosine", 0, 1);
    sine = draw_coefficients(plan, config, 1, 0, "sine", 0, 1);
  }
  // q.k of a pair, q turned by z_n and k by z_m: Re(q conj(k) z_n conj(z_m)).
  const auto logit = [&](std::int64_t j, std::int64_t n, std::int64_t m, double angle) {
    const Pair a = factor(plan, cosine, sine, j, n), b = factor(plan, cosine, sine, j, m);
    const double real = a.cosine * b.cosine + a.sine * b.sine, imaginary = a.sine * b.cosine - a.cosine * b.sine;
    return std::cos(angle) * real - std::sin(angle) * imaginary;
  };
  const RandomKey random(1, "test");
  double squares = 0;
  std::int64_t count = 0;
  for (std::int64_t j = 0; j < plan.columns; ++j) {
    for (std::uint64_t trial = 0; trial < 200; ++trial, ++count) {
      const auto m = static_cast<std::int64_t>(random.below(256, trial));
      const std::int64_t n = m + static_cast<std::int64_t>(random.below(255, trial, 1));
      const double angle = 6.283185307179586 * random.uniform(trial, 2);
      const double difference = logit(j, n + 1, m + 1, angle) - logit(j, n, m, angle);
      squares += difference * difference;
    }
  }
  return std::sqrt(squares / static_cast<double>(count));
}

TEST(Fope, IsRelativeUpToItsGain) {
  EXPECT_LT(shift_error(0, 64, 8), 1e-12);
  EXPECT_GT(shift_error(0.3, 64, 8), 0.04);
  EXPECT_LT(shift_error(0.3, 64, 8), 0.06);
  EXPECT_GT(shift_error(0.4, 128, 8), 0.04);
  EXPECT_LT(shift_error(0.4, 128, 8), 0.06);
}

}  // namespace
}  // namespace longwave
