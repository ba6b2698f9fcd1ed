// Attention on CUDA against the fp64 reference, at lengths that no tile divides.
#include "tests/unit/backend/device_tensor.h"
// After gtest's namespace `testing` has been used: this one declares longwave::testing.
#include "tests/unit/attention/attention_reference.h"

namespace longwave {
namespace {

using testing::attention_reference;
using testing::AttentionReference;

struct Case {
  AttentionShape shape;
  bool alibi;
};

void PrintTo(const Case& c, std::ostream* stream) {
  *stream << "B" << c.shape.batch << " T" << c.shape.length << " H" << c.shape.heads << " G" << c.shape.kv_heads << " D"
          << c.shape.head_dim << (c.alibi ? " alibi" : "");
}

struct Attention {
  AttentionShape shape;
  std::vector<float> slopes;
  AttentionOptions options;
  DeviceTensor q, k, v, out, lse, dout, dq, dk, dv, workspace;

  explicit Attention(const Case& c)
      : shape(c.shape),
        q(DType::bf16, {shape.batch, shape.heads, shape.length, shape.head_dim}, "q"),
        k(DType::bf16, {shape.batch, shape.kv_heads, shape.length, shape.head_dim}, "k"),
        v(DType::bf16, {shape.batch, shape.kv_heads, shape.length, shape.head_dim}, "v"),
        out(DType::bf16, {shape.batch * shape.length, shape.heads * shape.head_dim}, "old out"),
        lse(DType::f32, {shape.batch, shape.heads, shape.length}),
        dout(DType::bf16, {shape.batch * shape.length, shape.heads * shape.head_dim}, "dout"),
        dq(DType::bf16, Tensor(q).shape, "old dq"),
        dk(DType::bf16, Tensor(k).shape, "old dk"),
        dv(DType::bf16, Tensor(v).shape, "old dv"),
        workspace(DType::f32, {backend_under_test().attention_backward_workspace(shape)}) {
    options.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)));
    if (c.alibi) {
      for (std::int64_t head = 0; head < shape.heads; ++head) slopes.push_back(std::exp2(-static_cast<float>(head + 1)));
      options.slopes = slopes.data();
    }
  }

  void forward() { backend_under_test().attention_forward(q, k, v, shape, options, out, lse); }
  void backward() {
    backend_under_test().attention_backward(q, k, v, out, dout, lse, shape, options, dq, dk, dv, workspace);
  }
  AttentionReference reference() const {
    return attention_reference(q.read(), k.read(), v.read(), dout.read(), shape, static_cast<double>(options.scale), slopes);
  }
};

// Root mean square of the differences, and the largest, over the root mean square of what was expected.
void expect_near(const Values& actual, const Values& expected, double rms_limit, double largest_limit, const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  double square = 0, expected_square = 0, largest = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::fabs(actual[i] - expected[i]);
    ASSERT_TRUE(std::isfinite(difference)) << what << "[" << i << "]";
    square += difference * difference;
    expected_square += expected[i] * expected[i];
    largest = std::max(largest, difference);
  }
  const auto count = static_cast<double>(expected.size());
  const double unit = std::sqrt(expected_square / count);
  EXPECT_LE(std::sqrt(square / count), rms_limit * unit) << what;
  EXPECT_LE(largest, largest_limit * unit) << what;
}

class CudaAttention : public ::testing::TestWithParam<Case> {};

// The probabilities are rounded to bf16 once, the outputs once: 2^-9 each, on average half of that.
TEST_P(CudaAttention, AgreesWithTheDefinition) {
  Attention attention(GetParam());
  attention.forward();
  attention.backward();
  const AttentionReference expected = attention.reference();
  expect_close(attention.lse.read(), expected.lse, 1e-5, 1e-5, "lse");
  expect_near(attention.out.read(), expected.out, 3e-3, 3e-2, "out");
  expect_near(attention.dq.read(), expected.dq, 5e-3, 5e-2, "dq");
  expect_near(attention.dk.read(), expected.dk, 5e-3, 5e-2, "dk");
  expect_near(attention.dv.read(), expected.dv, 5e-3, 5e-2, "dv");
}

TEST_P(CudaAttention, GivesTheSameBitsAgain) {
  Attention attention(GetParam());
  attention.forward();
  attention.backward();
  const Values out = attention.out.read(), dq = attention.dq.read(), dk = attention.dk.read(), dv = attention.dv.read();
  attention.forward();
  attention.backward();
  EXPECT_EQ(attention.out.read(), out);
  EXPECT_EQ(attention.dq.read(), dq);
  EXPECT_EQ(attention.dk.read(), dk);
  EXPECT_EQ(attention.dv.read(), dv);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaAttention,
                         ::testing::Values(Case{{1, 1, 1, 1, 64}, false}, Case{{2, 17, 2, 1, 64}, true},
                                           Case{{1, 64, 2, 2, 128}, false}, Case{{1, 65, 4, 2, 64}, false},
                                           Case{{1, 131, 3, 1, 128}, true}, Case{{2, 77, 2, 2, 128}, false},
                                           Case{{1, 200, 1, 1, 64}, true}));

// Logits far apart: a softmax that lost its maximum would overflow or give zeros.
TEST(CudaAttentionRange, LargeLogitsStayFinite) {
  Attention attention({{1, 70, 1, 1, 64}, false});
  attention.options.scale = 40;
  attention.forward();
  attention.backward();
  const AttentionReference expected = attention.reference();
  expect_near(attention.out.read(), expected.out, 2e-2, 1, "out");
  for (const DeviceTensor* tensor : {&attention.dq, &attention.dk, &attention.dv}) {
    for (double value : tensor->read()) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(CudaAttentionSizes, OtherHeadDimsAreRefused) {
  Attention attention({{1, 4, 1, 1, 64}, false});
  attention.shape.head_dim = 32;
  EXPECT_THROW(attention.forward(), Error);
}

}  // namespace
}  // namespace longwave
