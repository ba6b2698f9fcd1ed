// Kernels whose grid has a largest size: past it a thread takes more than one item.
#include "tests/unit/backend/device_tensor.h"

namespace longwave {
namespace {

// Above the most items that 2048 blocks of 256 threads take at once, and in no whole packs.
constexpr std::int64_t many = 530001;

TEST(CudaGrid, AddReachesEveryElement) {
  const DeviceTensor x(DType::bf16, {many}, "x"), to(DType::bf16, {many}, "to");
  Values expected = to.read();
  const Values xs = x.read();
  for (std::size_t i = 0; i < xs.size(); ++i) expected[i] += xs[i];
  backend_under_test().add(x, to);
  expect_close(to.read(), expected, rounding_of(DType::bf16), 0, "to");
}

TEST(CudaGrid, CopyReachesEveryElement) {
  const DeviceTensor from(DType::bf16, {many}, "from"), to(DType::f32, {many}, "old");
  backend_under_test().copy(from, to);
  EXPECT_EQ(to.read(), from.read());
}

TEST(CudaGrid, SwigluReachesEveryElement) {
  const std::int64_t rows = 530, hidden = 1001;
  const DeviceTensor gate_up(DType::bf16, {rows, 2 * hidden}, "gate_up"), dout(DType::bf16, {rows, hidden}, "dout");
  const DeviceTensor out(DType::bf16, {rows, hidden}), dgate_up(DType::bf16, {rows, 2 * hidden});
  backend_under_test().swiglu_forward(gate_up, out);
  backend_under_test().swiglu_backward(dout, gate_up, dgate_up);
  const Values in = gate_up.read(), d = dout.read();
  Values expected(d.size()), expected_gradient(in.size());
  const auto columns = static_cast<std::size_t>(hidden);
  for (std::size_t i = 0; i < d.size(); ++i) {
    const std::size_t gate = i / columns * 2 * columns + i % columns, up = gate + columns;
    const double sigmoid = 1 / (1 + std::exp(-in[gate]));
    expected[i] = in[gate] * sigmoid * in[up];
    expected_gradient[gate] = d[i] * in[up] * sigmoid * (1 + in[gate] * (1 - sigmoid));
    expected_gradient[up] = d[i] * in[gate] * sigmoid;
  }
  expect_close(out.read(), expected, rounding_of(DType::bf16) + 1e-6, 1e-30, "out");
  expect_close(dgate_up.read(), expected_gradient, rounding_of(DType::bf16) + 1e-6, 2e-6, "dgate_up");
}

TEST(CudaGrid, AdamWReachesEveryElement) {
  const std::int64_t count = 4096 * 256 + 3;
  const DeviceTensor master(DType::f32, {count}, Values(static_cast<std::size_t>(count), 2.0)), gradient(DType::f32, {count});
  const DeviceTensor moment1(DType::f32, {count}), moment2(DType::f32, {count}), value(DType::bf16, {count});
  const AdamWStep decay_alone = {.learning_rate = 0.5f, .epsilon = 1e-8f, .weight_decay = 1};
  backend_under_test().adamw(master, gradient, moment1, moment2, value, decay_alone);
  const Values halved(static_cast<std::size_t>(count), 1.0);
  EXPECT_EQ(master.read(), halved);
  EXPECT_EQ(value.read(), halved);
}

}  // namespace
}  // namespace longwave
