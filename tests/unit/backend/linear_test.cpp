#include <omp.h>

#include "core/backend/cpu/isa.h"
#include "tests/unit/backend/device_tensor.h"

namespace longwave {
namespace {

struct Sizes {
  std::int64_t rows, outputs, inputs;
};

// The last ones: whole tiles of AMX; a long sum, taken in pieces, that leaves a part of a tile; more columns than a panel holds;
// an output that goes past the caches.
const std::vector<Sizes> sizes = {{1, 1, 1},      {1, 65, 17},  {17, 1, 300},  {65, 300, 17}, {300, 17, 65},
                                  {37, 257, 129}, {96, 64, 96}, {40, 33, 4500}, {33, 4500, 40}, {1100, 1056, 32}};

// out[m, n] = sum_k left(m, k) right(k, n)
template <class Left, class Right>
Values product(std::int64_t m, std::int64_t n, std::int64_t k, const Left& left, const Right& right) {
  Values out(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) sum += left(i, l) * right(l, j);
      out[static_cast<std::size_t>(i * n + j)] = sum;
    }
  }
  return out;
}

// Of an fp32 sum of k products of numbers about 1.
double sum_error(std::int64_t k) { return 1.5e-7 * std::max(200.0, static_cast<double>(k)); }

auto at(const Values& matrix, std::int64_t columns) {
  return [&matrix, columns](std::int64_t i, std::int64_t j) { return matrix[static_cast<std::size_t>(i * columns + j)]; };
}
auto transposed_at(const Values& matrix, std::int64_t columns) {
  return [&matrix, columns](std::int64_t i, std::int64_t j) { return matrix[static_cast<std::size_t>(j * columns + i)]; };
}

class Linear : public EveryActivationType {};

TEST_P(Linear, ForwardIsXTimesWeightTransposed) {
  for (const auto& [rows, outputs, inputs] : sizes) {
    const DeviceTensor x(dtype(), {rows, inputs}, "x"), weight(dtype(), {outputs, inputs}, "weight");
    const Values expected = product(rows, outputs, inputs, at(x.read(), inputs), transposed_at(weight.read(), inputs));
    for (DType out_type : {DType::f32, dtype()}) {
      const DeviceTensor y(out_type, {rows, outputs});
      backend().linear_forward(x, weight, y);
      expect_close(y.read(), expected, rounding_of(out_type) + 1e-6, sum_error(inputs), "y");
    }
  }
}

TEST_P(Linear, BackwardInputIsDyTimesWeight) {
  for (const auto& [rows, outputs, inputs] : sizes) {
    const DeviceTensor dy(dtype(), {rows, outputs}, "dy"), weight(dtype(), {outputs, inputs}, "weight");
    const DeviceTensor dx(dtype(), {rows, inputs}, "old");
    backend().linear_backward_input(dy, weight, dx);
    expect_close(dx.read(), product(rows, inputs, outputs, at(dy.read(), outputs), at(weight.read(), inputs)),
                 rounding_of(dtype()) + 1e-6, sum_error(outputs), "dx");
  }
}

TEST_P(Linear, BackwardWeightAddsDyTransposedTimesX) {
  for (const auto& [rows, outputs, inputs] : sizes) {
    const DeviceTensor dy(dtype(), {rows, outputs}, "dy"), x(dtype(), {rows, inputs}, "x");
    const DeviceTensor dweight(DType::f32, {outputs, inputs}, "old");
    Values expected = product(outputs, inputs, rows, transposed_at(dy.read(), outputs), at(x.read(), inputs));
    const Values old = dweight.read();
    backend().linear_backward_weight(dy, x, dweight);
    for (std::size_t i = 0; i < old.size(); ++i) expected[i] += old[i];
    expect_close(dweight.read(), expected, 1e-6, sum_error(rows), "dweight");
    backend().linear_backward_weight(dy, x, dweight);
    for (std::size_t i = 0; i < old.size(); ++i) expected[i] += expected[i] - old[i];
    expect_close(dweight.read(), expected, 1e-6, 2 * sum_error(rows), "dweight of two calls");
  }
}

TEST_P(Linear, SameInputsGiveTheSameBits) {
  const DeviceTensor dy(dtype(), {300, 129}, "dy"), x(dtype(), {300, 65}, "x");
  const DeviceTensor first(DType::f32, {129, 65}), second(DType::f32, {129, 65});
  backend().linear_backward_weight(dy, x, first);
  backend().linear_backward_weight(dy, x, second);
  EXPECT_EQ(first.read(), second.read());
}

TEST_P(Linear, Bf16OnTilesDoesNotDependOnTheThreads) {
  const bool tiles = active_isa() == Isa::amx_bf16 && backend().info().has_bf16;
  if (dtype() != DType::bf16 || !tiles) GTEST_SKIP() << "no products on tiles here";
  const DeviceTensor dy(dtype(), {300, 129}, "dy"), x(dtype(), {300, 65}, "x"), weight(dtype(), {129, 65}, "weight");
  const auto results = [&](int threads) {
    omp_set_num_threads(threads);
    const DeviceTensor y(dtype(), {300, 129}), dx(dtype(), {300, 65}), dweight(DType::f32, {129, 65});
    backend().linear_forward(x, weight, y);
    backend().linear_backward_input(dy, weight, dx);
    backend().linear_backward_weight(dy, x, dweight);
    return std::vector{y.read(), dx.read(), dweight.read()};
  };
  const int threads = omp_get_max_threads();
  const auto one = results(1), three = results(3), eight = results(8);
  omp_set_num_threads(threads);
  EXPECT_EQ(one, three);
  EXPECT_EQ(one, eight);
}

TEST_P(Linear, NoRowsChangeNothing) {
  const DeviceTensor dy(dtype(), {0, 5}), x(dtype(), {0, 3}), dweight(DType::f32, {5, 3}, "old");
  const Values old = dweight.read();
  backend().linear_backward_weight(dy, x, dweight);
  EXPECT_EQ(dweight.read(), old);
}

TEST_P(Linear, RefusesShapesThatDoNotMeet) {
  const DeviceTensor x(dtype(), {4, 3}), weight(dtype(), {5, 2}), y(dtype(), {4, 5});
  EXPECT_THROW(backend().linear_forward(x, weight, y), Error);
}

INSTANTIATE_FOR_EVERY_ACTIVATION_TYPE(Linear);

}  // namespace
}  // namespace longwave
