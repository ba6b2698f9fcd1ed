#include "tests/unit/backend/device_tensor.h"

namespace longwave {
namespace {

constexpr float epsilon = 1e-3f;  // large enough to matter

struct Reference {
  Values y, rstd;
};

Reference rmsnorm(const Values& x, const Values& gain) {
  const std::size_t width = gain.size();
  Reference result;
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += x[row * width + i] * x[row * width + i];
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(width) + epsilon);
    result.rstd.push_back(rstd);
    for (std::size_t i = 0; i < width; ++i) result.y.push_back(x[row * width + i] * rstd * gain[i]);
  }
  return result;
}

double weighted_output(const Values& x, const Values& gain, const Values& dy) {
  const Values y = rmsnorm(x, gain).y;
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
  return sum;
}

// d weighted_output / d argument by central differences in fp64.
template <class Function> Values differentiate(Values argument, const Function& function) {
  Values gradient;
  for (double& value : argument) {
    const double saved = value, step = 1e-5;
    value = saved + step;
    const double above = function(argument);
    value = saved - step;
    const double below = function(argument);
    value = saved;
    gradient.push_back((above - below) / (2 * step));
  }
  return gradient;
}

class RmsNorm : public EveryActivationType {};

TEST_P(RmsNorm, ForwardNormalisesEachRow) {
  for (std::int64_t width : {1, 17, 65, 264, 300}) {
    for (std::int64_t rows : {1, 17, 300}) {
      const DeviceTensor x(dtype(), {rows, width}, "x", 3), gain(dtype(), {width}, "gain");
      const DeviceTensor y(dtype(), {rows, width}), rstd(DType::f32, {rows});
      backend().rmsnorm_forward(x, gain, epsilon, y, rstd);
      const Reference expected = rmsnorm(x.read(), gain.read());
      expect_close(rstd.read(), expected.rstd, 1e-6, 0, "rstd");
      expect_close(y.read(), expected.y, rounding_of(dtype()) + 1e-6, 0, "y");
    }
  }
}

TEST_P(RmsNorm, FusedAddIsAddThenNorm) {
  for (std::int64_t width : {1, 17, 264, 300}) {
    const std::int64_t rows = 65;
    const DeviceTensor residual(dtype(), {rows, width}, "x"), separate(dtype(), {rows, width}, "x");
    const DeviceTensor branch(dtype(), {rows, width}, "branch"), gain(dtype(), {width}, "gain");
    const DeviceTensor y(dtype(), {rows, width}), rstd(DType::f32, {rows});
    backend().add(branch, separate);
    backend().add_rmsnorm_forward(residual, branch, gain, epsilon, y, rstd);
    EXPECT_EQ(residual.read(), separate.read());
    const Reference expected = rmsnorm(residual.read(), gain.read());
    expect_close(rstd.read(), expected.rstd, 1e-6, 0, "rstd");
    expect_close(y.read(), expected.y, rounding_of(dtype()) + 1e-6, 0, "y");
  }
}

TEST_P(RmsNorm, BackwardMatchesFiniteDifferencesAndAdds) {
  for (std::int64_t width : {1, 17, 65}) {
    const std::int64_t rows = 19;
    const DeviceTensor x(dtype(), {rows, width}, "x"), gain(dtype(), {width}, "gain"), dy(dtype(), {rows, width}, "dy");
    const DeviceTensor y(dtype(), {rows, width}), rstd(DType::f32, {rows});
    const DeviceTensor dx(dtype(), {rows, width}, "old dx"), dgain(DType::f32, {width}, "old dgain");
    const Values old_dx = dx.read(), old_dgain = dgain.read();
    backend().rmsnorm_forward(x, gain, epsilon, y, rstd);
    backend().rmsnorm_backward(dy, x, gain, rstd, dx, dgain);
    const Values xs = x.read(), gains = gain.read(), dys = dy.read();
    Values expected_dx = differentiate(xs, [&](const Values& at) { return weighted_output(at, gains, dys); });
    Values expected_dgain = differentiate(gains, [&](const Values& at) { return weighted_output(xs, at, dys); });
    for (std::size_t i = 0; i < old_dx.size(); ++i) expected_dx[i] += old_dx[i];
    for (std::size_t i = 0; i < old_dgain.size(); ++i) expected_dgain[i] += old_dgain[i];
    expect_close(dx.read(), expected_dx, rounding_of(dtype()), 2e-5, "dx");
    expect_close(dgain.read(), expected_dgain, 1e-6, 1e-5, "dgain");
  }
}

// Rows of many vectors, in whole ones and not: dx += rstd (h - z mean(h z)) with z = x rstd and h = gain dy.
TEST_P(RmsNorm, BackwardOfWideRowsIsTheFormula) {
  for (std::int64_t width : {264, 300, 700, 1500, 2056, 4104, 9000}) {
    const std::int64_t rows = 3;
    const DeviceTensor x(dtype(), {rows, width}, "x"), gain(dtype(), {width}, "gain"), dy(dtype(), {rows, width}, "dy");
    const DeviceTensor y(dtype(), {rows, width}), rstd(DType::f32, {rows});
    const DeviceTensor dx(dtype(), {rows, width}, "old dx"), dgain(DType::f32, {width}, "old dgain");
    Values expected_dx = dx.read(), expected_dgain = dgain.read();
    backend().rmsnorm_forward(x, gain, epsilon, y, rstd);
    backend().rmsnorm_backward(dy, x, gain, rstd, dx, dgain);
    const Values xs = x.read(), gains = gain.read(), dys = dy.read(), rstds = rmsnorm(xs, gains).rstd;
    const auto columns = static_cast<std::size_t>(width);
    for (std::size_t row = 0; row < rstds.size(); ++row) {
      double mean = 0;
      for (std::size_t i = 0; i < columns; ++i) {
        const std::size_t at = row * columns + i;
        mean += gains[i] * dys[at] * xs[at] * rstds[row] / static_cast<double>(width);
        expected_dgain[i] += dys[at] * xs[at] * rstds[row];
      }
      for (std::size_t i = 0; i < columns; ++i) {
        const std::size_t at = row * columns + i;
        expected_dx[at] += rstds[row] * (gains[i] * dys[at] - xs[at] * rstds[row] * mean);
      }
    }
    expect_close(dx.read(), expected_dx, rounding_of(dtype()), 2e-5, "dx");
    expect_close(dgain.read(), expected_dgain, 1e-6, 1e-4, "dgain");
  }
}

TEST_P(RmsNorm, GainGradientSumsOverManyBlocksOfRows) {
  const std::int64_t rows = 1500, width = 33;
  const DeviceTensor x(dtype(), {rows, width}, "x"), gain(dtype(), {width}, "gain"), dy(dtype(), {rows, width}, "dy");
  const DeviceTensor y(dtype(), {rows, width}), rstd(DType::f32, {rows});
  const DeviceTensor dx(dtype(), {rows, width}), dgain(DType::f32, {width});
  backend().rmsnorm_forward(x, gain, epsilon, y, rstd);
  backend().rmsnorm_backward(dy, x, gain, rstd, dx, dgain);
  const Values xs = x.read(), dys = dy.read(), rstds = rmsnorm(xs, gain.read()).rstd;
  Values expected(static_cast<std::size_t>(width));
  for (std::size_t i = 0; i < xs.size(); ++i) expected[i % expected.size()] += dys[i] * xs[i] * rstds[i / expected.size()];
  expect_close(dgain.read(), expected, 1e-6, 1e-4, "dgain");
}

INSTANTIATE_FOR_EVERY_ACTIVATION_TYPE(RmsNorm);

}  // namespace
}  // namespace longwave
