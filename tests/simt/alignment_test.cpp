// Weights lie one behind the other in a flat range, at multiples of 128 bytes: cuBLASLt must choose algorithms for that.
#include "tests/unit/backend/device_tensor.h"

namespace longwave {
namespace {

constexpr std::int64_t rows = 72, outputs = 136, inputs = 64;
constexpr std::int64_t shift = 8;  // elements: 16 bytes of bf16

// A matrix that begins 16 bytes, or 32 of fp32, after an allocation does.
class Shifted {
 public:
  Shifted(DType dtype, std::int64_t lines, std::int64_t columns, const std::string& name)
      : memory_(dtype, {lines * columns + shift}, name) {
    const Tensor whole = memory_;
    matrix_ = Tensor(static_cast<char*>(whole.data) + shift * static_cast<std::int64_t>(size_of(dtype)), dtype, {lines, columns});
  }
  Tensor matrix() const { return matrix_; }
  Values read() const {
    const Values all = memory_.read();
    return {all.begin() + shift, all.end()};
  }

 private:
  DeviceTensor memory_;
  Tensor matrix_;
};

TEST(CudaLinear, TakesMatricesAtMultiplesOf16Bytes) {
  const Shifted x(DType::bf16, rows, inputs, "x"), weight(DType::bf16, outputs, inputs, "weight");
  const Shifted dy(DType::bf16, rows, outputs, "dy");
  const Shifted y(DType::bf16, rows, outputs, "old y"), dx(DType::bf16, rows, inputs, "old dx");
  const Shifted dweight(DType::f32, outputs, inputs, "old dweight");
  const Values xs = x.read(), weights = weight.read(), dys = dy.read();
  Values expected_y(static_cast<std::size_t>(rows * outputs)), expected_dx(xs.size()), expected_dweight = dweight.read();
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t out = 0; out < outputs; ++out) {
      for (std::size_t in = 0; in < inputs; ++in) {
        expected_y[row * outputs + out] += xs[row * inputs + in] * weights[out * inputs + in];
        expected_dx[row * inputs + in] += dys[row * outputs + out] * weights[out * inputs + in];
        expected_dweight[out * inputs + in] += dys[row * outputs + out] * xs[row * inputs + in];
      }
    }
  }
  Backend& backend = backend_under_test();
  backend.linear_forward(x.matrix(), weight.matrix(), y.matrix());
  backend.linear_backward_input(dy.matrix(), weight.matrix(), dx.matrix());
  backend.linear_backward_weight(dy.matrix(), x.matrix(), dweight.matrix());
  expect_close(y.read(), expected_y, rounding_of(DType::bf16) + 1e-6, 3e-5, "y");
  expect_close(dx.read(), expected_dx, rounding_of(DType::bf16) + 1e-6, 3e-5, "dx");
  expect_close(dweight.read(), expected_dweight, 1e-6, 3e-5, "dweight");
}

}  // namespace
}  // namespace longwave
