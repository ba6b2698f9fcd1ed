#include <limits>

#include "tests/unit/backend/device_tensor.h"

namespace longwave {
namespace {

AdamWStep step_number(int t) {
  AdamWStep step;
  step.learning_rate = 1e-2f;
  step.beta1 = 0.9f;
  step.beta2 = 0.95f;
  step.epsilon = 1e-8f;
  step.weight_decay = 0.1f;
  step.bias_correction1 = static_cast<float>(1 - std::pow(0.9, t));
  step.bias_correction2 = static_cast<float>(1 - std::pow(0.95, t));
  step.gradient_scale = 0.25f;
  return step;
}

struct AdamW {
  Values weight, moment1, moment2;

  void update(const Values& gradient, const AdamWStep& step) {
    for (std::size_t i = 0; i < weight.size(); ++i) {
      const double g = gradient[i] * static_cast<double>(step.gradient_scale);
      moment1[i] = 0.9 * moment1[i] + 0.1 * g;
      moment2[i] = 0.95 * moment2[i] + 0.05 * g * g;
      const double direction = moment1[i] / step.bias_correction1 / (std::sqrt(moment2[i] / step.bias_correction2) + 1e-8);
      weight[i] -= 1e-2 * (direction + 0.1 * weight[i]);
    }
  }
};

class AdamWUpdate : public EveryActivationType {};

TEST_P(AdamWUpdate, FollowsTheReferenceOverSeveralSteps) {
  for (std::int64_t count : {1, 17, 65, 264, 300, 40001}) {
    const DeviceTensor master(DType::f32, {count}, "master"), moment1(DType::f32, {count}), moment2(DType::f32, {count});
    const DeviceTensor value(dtype(), {count});
    AdamW reference = {master.read(), Values(static_cast<std::size_t>(count)), Values(static_cast<std::size_t>(count))};
    for (int t = 1; t <= 4; ++t) {
      const DeviceTensor gradient(DType::f32, {count}, "gradient" + std::to_string(t));
      backend().adamw(master, gradient, moment1, moment2, value, step_number(t));
      reference.update(gradient.read(), step_number(t));
    }
    expect_close(master.read(), reference.weight, 1e-6, 1e-6, "master");
    expect_close(moment1.read(), reference.moment1, 1e-6, 1e-7, "moment1");
    expect_close(moment2.read(), reference.moment2, 1e-6, 1e-7, "moment2");
    const DeviceTensor rounded(dtype(), {count}, master.read());
    EXPECT_EQ(value.read(), rounded.read()) << "the value is the master, rounded";
  }
}

INSTANTIATE_FOR_EVERY_ACTIVATION_TYPE(AdamWUpdate);

TEST(AdamWInPlace, ValueMayBeTheMaster) {
  const DeviceTensor master(DType::f32, {300}, "master"), same(DType::f32, {300}, "master"), value(DType::f32, {300});
  const DeviceTensor gradient(DType::f32, {300}, "gradient");
  const DeviceTensor a(DType::f32, {300}), b(DType::f32, {300}), c(DType::f32, {300}), d(DType::f32, {300});
  backend_under_test().adamw(master, gradient, a, b, master, step_number(1));
  backend_under_test().adamw(same, gradient, c, d, value, step_number(1));
  EXPECT_EQ(master.read(), value.read());
}

TEST(AdamWOfZeroGradient, OnlyDecays) {
  const DeviceTensor master(DType::f32, {17}, Values(17, 2.0)), gradient(DType::f32, {17});
  const DeviceTensor moment1(DType::f32, {17}), moment2(DType::f32, {17});
  backend_under_test().adamw(master, gradient, moment1, moment2, master, step_number(1));
  expect_close(master.read(), Values(17, 2.0 * (1 - 1e-3)), 1e-7, 0, "master");
}

TEST(SumOfSquares, AddsTheSumInFp64) {
  for (std::int64_t count : {1, 17, 65, 300, 16384, 70001, 70008}) {
    const DeviceTensor x(DType::f32, {count}, "x"), sum(DType::f64, {1}, Values{3});
    double expected = 3;
    for (double value : x.read()) expected += value * value;
    backend_under_test().sum_of_squares(x, sum);
    expect_close(sum.read(), {expected}, 1e-13, 0, "sum");
  }
}

TEST(SumOfSquares, IsNotFiniteWhenAnElementIsNot) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (double bad : {static_cast<double>(infinity), std::nan("")}) {
    for (std::size_t position : {0, 33, 70000}) {
      Values values(70001, 1.0);
      values[position] = bad;
      const DeviceTensor x(DType::f32, {70001}, values), sum(DType::f64, {1});
      backend_under_test().sum_of_squares(x, sum);
      EXPECT_FALSE(std::isfinite(sum.read()[0]));
    }
  }
}

TEST(SumOfSquares, OfLargeNumbersDoesNotOverflow) {
  const DeviceTensor x(DType::f32, {100}, Values(100, 3e38)), sum(DType::f64, {1});
  backend_under_test().sum_of_squares(x, sum);
  EXPECT_TRUE(std::isfinite(sum.read()[0]));
}

}  // namespace
}  // namespace longwave
