#include "tests/unit/backend/device_tensor.h"

namespace longwave {
namespace {

double silu(double x) { return x / (1 + std::exp(-x)); }
double silu_slope(double x) {
  const double step = 1e-5;
  return (silu(x + step) - silu(x - step)) / (2 * step);
}

class Elementwise : public EveryActivationType {};

TEST_P(Elementwise, AddAdds) {
  for (std::int64_t count : {1, 17, 65, 264, 300, 70001}) {
    const DeviceTensor x(dtype(), {count}, "x"), to(dtype(), {count}, "to");
    Values expected = to.read();
    const Values xs = x.read();
    for (std::size_t i = 0; i < xs.size(); ++i) expected[i] += xs[i];
    backend().add(x, to);
    expect_close(to.read(), expected, rounding_of(dtype()), 0, "to");
  }
}

TEST_P(Elementwise, SwigluIsSiluOfGateTimesUp) {
  for (std::int64_t hidden : {1, 17, 65, 264, 300}) {
    for (std::int64_t rows : {1, 17, 300}) {
      const DeviceTensor gate_up(dtype(), {rows, 2 * hidden}, "gate_up", 4), out(dtype(), {rows, hidden});
      backend().swiglu_forward(gate_up, out);
      const Values in = gate_up.read();
      Values expected;
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < hidden; ++i) {
          const auto gate = static_cast<std::size_t>(row * 2 * hidden + i);
          expected.push_back(silu(in[gate]) * in[gate + static_cast<std::size_t>(hidden)]);
        }
      }
      expect_close(out.read(), expected, rounding_of(dtype()) + 1e-6, 1e-30, "out");
    }
  }
}

TEST_P(Elementwise, SwigluBackwardMatchesFiniteDifferencesAlsoInPlace) {
  for (std::int64_t hidden : {1, 17, 65, 264, 300}) {
    const std::int64_t rows = 17;
    const DeviceTensor gate_up(dtype(), {rows, 2 * hidden}, "gate_up", 4), dout(dtype(), {rows, hidden}, "dout");
    const DeviceTensor dgate_up(dtype(), {rows, 2 * hidden});
    const Values in = gate_up.read(), d = dout.read();
    Values expected(in.size());
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(hidden); ++i) {
        const std::size_t gate = row * 2 * static_cast<std::size_t>(hidden) + i, up = gate + static_cast<std::size_t>(hidden);
        const double dout_i = d[row * static_cast<std::size_t>(hidden) + i];
        expected[gate] = dout_i * in[up] * silu_slope(in[gate]);
        expected[up] = dout_i * silu(in[gate]);
      }
    }
    backend().swiglu_backward(dout, gate_up, dgate_up);
    expect_close(dgate_up.read(), expected, rounding_of(dtype()) + 1e-6, 2e-6, "dgate_up");
    backend().swiglu_backward(dout, gate_up, gate_up);
    EXPECT_EQ(gate_up.read(), dgate_up.read());
  }
}

// Where the device takes both at once: whole blocks of AMX, rows and depths that leave a part of one, more columns than a panel
// holds, an output that goes past the caches; and where it does not.
TEST_P(Elementwise, SwigluWithItsProductGivesTheBitsOfBothInTurn) {
  struct Sizes {
    std::int64_t rows, hidden, inputs;
  };
  for (const auto& [rows, hidden, inputs] :
       {Sizes{3, 32, 16}, {32, 32, 32}, {45, 96, 80}, {300, 50, 64}, {77, 1056, 520}, {1100, 512, 40}}) {
    const DeviceTensor x(dtype(), {rows, inputs}, "x"), up_weight(dtype(), {2 * hidden, inputs}, "up_weight");
    const DeviceTensor gate_up(dtype(), {rows, 2 * hidden}), out(dtype(), {rows, hidden});
    const DeviceTensor gate_up_of_both(dtype(), {rows, 2 * hidden}), out_of_both(dtype(), {rows, hidden});
    backend().linear_forward(x, up_weight, gate_up);
    backend().swiglu_forward(gate_up, out);
    backend().linear_swiglu_forward(x, up_weight, gate_up_of_both, out_of_both);
    EXPECT_EQ(gate_up_of_both.read(), gate_up.read());
    EXPECT_EQ(out_of_both.read(), out.read());

    const DeviceTensor dy(dtype(), {rows, inputs}, "dy"), down_weight(dtype(), {inputs, hidden}, "down_weight");
    const DeviceTensor dout(dtype(), {rows, hidden});
    backend().linear_backward_input(dy, down_weight, dout);
    backend().swiglu_backward(dout, gate_up, gate_up);
    backend().linear_swiglu_backward(dy, down_weight, dout, gate_up_of_both);
    EXPECT_EQ(gate_up_of_both.read(), gate_up.read());
  }
}

TEST_P(Elementwise, SwigluOfExtremeGatesIsFinite) {
  const DeviceTensor gate_up(dtype(), {1, 8}, Values{-1e30, -100, 100, 1e30, 1, 1, 1, 1}), out(dtype(), {1, 4});
  backend().swiglu_forward(gate_up, out);
  expect_close(out.read(), {0, 0, 100, 1e30}, 0.005, 1e-30, "out");
}

TEST_P(Elementwise, CopyConvertsFromAndToFp32) {
  for (std::int64_t count : {1, 17, 264, 300, 70001}) {
    const DeviceTensor from(DType::f32, {count}, "from"), to(dtype(), {count}), back(DType::f32, {count});
    backend().copy(from, to);
    backend().copy(to, back);
    EXPECT_EQ(back.read(), to.read());
    Values expected = from.read();
    if (dtype() == DType::bf16) {
      for (double& value : expected) value = static_cast<double>(static_cast<float>(bf16(static_cast<float>(value))));
    }
    EXPECT_EQ(to.read(), expected) << "rounding to nearest even";
  }
}

TEST_P(Elementwise, ZeroZeroesAllAndNothingElse) {
  const DeviceTensor x(dtype(), {70001}, "x");
  const double last = x.read().back();
  backend().zero(Tensor(x).rows(0, 70000));
  Values expected(70001, 0.0);
  expected.back() = last;
  EXPECT_EQ(x.read(), expected);
}

INSTANTIATE_FOR_EVERY_ACTIVATION_TYPE(Elementwise);

TEST(Copy, RoundsTiesToEvenAndKeepsNanAndInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  const double half = std::ldexp(1, -8);  // of the last place at 1
  const Values values = {1 + half, 1 + 3 * half, -1 - half, infinity, -infinity, 3.4e38, 0};
  const DeviceTensor from(DType::f32, {7}, values), to(DType::bf16, {7});
  backend_under_test().copy(from, to);
  EXPECT_EQ(to.read(), (Values{1, 1 + std::ldexp(1, -6), -1, infinity, -infinity, infinity, 0}));
  const DeviceTensor nan(DType::f32, {1}, Values{std::nan("")}), rounded(DType::bf16, {1});
  backend_under_test().copy(nan, rounded);
  EXPECT_TRUE(std::isnan(rounded.read()[0]));
}

TEST(Copy, ConvertsBetweenFp32AndFp64) {
  const DeviceTensor from(DType::f32, {300}, "from"), wide(DType::f64, {300}), back(DType::f32, {300});
  backend_under_test().copy(from, wide);
  backend_under_test().copy(wide, back);
  EXPECT_EQ(wide.read(), from.read());
  EXPECT_EQ(back.read(), from.read());
}

TEST(Copy, RefusesOtherCountsAndTypes) {
  const DeviceTensor three(DType::f32, {3}), four(DType::f32, {4}), whole(DType::i32, {3});
  EXPECT_THROW(backend_under_test().copy(three, four), Error);
  EXPECT_THROW(backend_under_test().copy(three, whole), Error);
}

}  // namespace
}  // namespace longwave
