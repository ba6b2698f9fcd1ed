// Position tables on CUDA against the series in fp64.
#include <cmath>

#include "tests/unit/backend/device_tensor.h"

namespace longwave {
namespace {

struct TableCase {
  std::int64_t heads, positions, frequencies, columns;
  bool identity;
};

void PrintTo(const TableCase& c, std::ostream* stream) {
  *stream << c.heads << " heads, " << c.positions << " positions, " << c.frequencies << " frequencies, " << c.columns << " columns";
}

class CudaPositionTable : public ::testing::TestWithParam<TableCase> {
 protected:
  // theta^(-2i/hd), without the rounding to fp32 that would be wrong at long positions
  Values frequencies() const {
    Values values;
    for (std::int64_t i = 0; i < GetParam().frequencies; ++i) values.push_back(std::pow(10000.0, -static_cast<double>(i) / 64));
    return values;
  }
};

TEST_P(CudaPositionTable, IsTheSeriesInFp64) {
  const auto [heads, positions, count, columns, identity] = GetParam();
  const Values frequency = frequencies();
  const DeviceTensor frequencies_on_device(DType::f64, {count}, frequency);
  const DeviceTensor cosine_weights(DType::f32, {heads, count, columns}, "cosine"), sine_weights(DType::f32, {heads, count, columns}, "sine");
  const DeviceTensor cosine(DType::f32, {heads, positions, columns}), sine(DType::f32, {heads, positions, columns});
  backend_under_test().position_table(frequencies_on_device, identity ? Tensor() : Tensor(cosine_weights),
                                      identity ? Tensor() : Tensor(sine_weights), 1.5, {cosine, sine, 1, 0});
  const Values cosine_weight = cosine_weights.read(), sine_weight = sine_weights.read();
  Values expected_cosine, expected_sine;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t t = 0; t < positions; ++t) {
      for (std::int64_t j = 0; j < columns; ++j) {
        double c = 0, s = 0;
        for (std::int64_t i = 0; i < count; ++i) {
          const auto at = static_cast<std::size_t>((h * count + i) * columns + j);
          const double angle = static_cast<double>(t) * frequency[static_cast<std::size_t>(i)];
          c += std::cos(angle) * (identity ? i == j : cosine_weight[at]);
          s += std::sin(angle) * (identity ? i == j : sine_weight[at]);
        }
        expected_cosine.push_back(1.5 * c);
        expected_sine.push_back(1.5 * s);
      }
    }
  }
  expect_close(cosine.read(), expected_cosine, 1e-6, 1e-6, "cosine");
  expect_close(sine.read(), expected_sine, 1e-6, 1e-6, "sine");
}

TEST_P(CudaPositionTable, GradientOfTheCoefficientsAddsUp) {
  const auto [heads, positions, count, columns, identity] = GetParam();
  if (identity) return;  // has no coefficients
  const Values frequency = frequencies();
  const DeviceTensor frequencies_on_device(DType::f64, {count}, frequency);
  const DeviceTensor dcosine(DType::f32, {heads, positions, columns}, "dcosine"), dsine(DType::f32, {heads, positions, columns}, "dsine");
  const DeviceTensor dcosine_weights(DType::f32, {heads, count, columns}, "old c"), dsine_weights(DType::f32, {heads, count, columns}, "old s");
  Values expected_cosine = dcosine_weights.read(), expected_sine = dsine_weights.read();
  const Values dc = dcosine.read(), ds = dsine.read();
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto to = static_cast<std::size_t>((h * count + i) * columns + j);
        for (std::int64_t t = 0; t < positions; ++t) {
          const auto from = static_cast<std::size_t>((h * positions + t) * columns + j);
          const double angle = static_cast<double>(t) * frequency[static_cast<std::size_t>(i)];
          expected_cosine[to] += std::cos(angle) * dc[from];
          expected_sine[to] += std::sin(angle) * ds[from];
        }
      }
    }
  }
  backend_under_test().position_table_backward(frequencies_on_device, {dcosine, dsine, 1, 0}, dcosine_weights, dsine_weights);
  expect_close(dcosine_weights.read(), expected_cosine, 1e-6, 1e-5, "dcosine_coefficients");
  expect_close(dsine_weights.read(), expected_sine, 1e-6, 1e-5, "dsine_coefficients");
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaPositionTable,
                         ::testing::Values(TableCase{2, 37, 16, 16, false}, TableCase{3, 150, 31, 27, false},
                                           TableCase{1, 9, 64, 64, true}, TableCase{5, 4, 130, 40, false}));

// An angle in fp32 would be wrong by 2e-3 here.
TEST(CudaPositionTableFarOut, IsExactAtPosition65535) {
  const double frequency = 0.7943282347242815;
  const DeviceTensor frequencies(DType::f64, {1}, Values{frequency});
  const DeviceTensor cosine(DType::f32, {1, 65536, 1}), sine(DType::f32, {1, 65536, 1});
  backend_under_test().position_table(frequencies, Tensor(), Tensor(), 1, {cosine, sine, 1, 0});
  EXPECT_NEAR(cosine.read()[65535], std::cos(65535 * frequency), 2e-7);
  EXPECT_NEAR(sine.read()[65535], std::sin(65535 * frequency), 2e-7);
}

}  // namespace
}  // namespace longwave
