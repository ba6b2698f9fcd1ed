#include "core/backend/cpu/attention.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/unit/attention/attention_reference.h"
#include "tests/unit/attention/buffer.h"

namespace longwave {
namespace {

using testing::attention_reference;
using testing::AttentionReference;
using testing::Buffer;
using testing::relative_error;
using testing::RelativeError;

// One call's tensors, inputs filled.
struct Call {
  AttentionShape shape;
  std::vector<float> slopes;
  Buffer q, k, v, out, lse, dout, dq, dk, dv, workspace;
  AttentionOptions options;

  Call(DType dtype, AttentionShape s, bool alibi)
      : shape(s),
        q(dtype, {s.batch, s.heads, s.length, s.head_dim}),
        k(dtype, {s.batch, s.kv_heads, s.length, s.head_dim}),
        v(dtype, {s.batch, s.kv_heads, s.length, s.head_dim}),
        out(dtype, {s.batch * s.length, s.heads * s.head_dim}),
        lse(DType::f32, {s.batch, s.heads, s.length}),
        dout(dtype, {s.batch * s.length, s.heads * s.head_dim}),
        dq(dtype, {s.batch, s.heads, s.length, s.head_dim}),
        dk(dtype, {s.batch, s.kv_heads, s.length, s.head_dim}),
        dv(dtype, {s.batch, s.kv_heads, s.length, s.head_dim}),
        workspace(DType::f32, {attention_backward_workspace_cpu(s)}) {
    q.fill_normal("q");
    k.fill_normal("k");
    v.fill_normal("v");
    dout.fill_normal("dout");
    options.scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
    if (alibi) {
      for (std::int64_t h = 1; h <= s.heads; ++h) {
        slopes.push_back(std::exp2(-8 * static_cast<float>(h) / static_cast<float>(s.heads)));
      }
      options.slopes = slopes.data();
    }
  }

  void run() {
    attention_forward_cpu(q, k, v, shape, options, out, lse);
    attention_backward_cpu(q, k, v, out, dout, lse, shape, options, dq, dk, dv, workspace);
  }

  AttentionReference reference() const {
    return attention_reference(q.values(), k.values(), v.values(), dout.values(), shape, static_cast<double>(options.scale),
                               slopes);
  }
};

struct Case {
  AttentionShape shape;
  bool alibi;
};

void PrintTo(const Case& c, std::ostream* stream) {
  *stream << "B" << c.shape.batch << " T" << c.shape.length << " H" << c.shape.heads << " G" << c.shape.kv_heads << " D"
          << c.shape.head_dim << (c.alibi ? " alibi" : "");
}

class AttentionAgainstReference : public ::testing::TestWithParam<Case> {};

struct Tolerance {
  double largest;
  double rms;
};

void expect_close(const Buffer& actual, const std::vector<double>& expected, Tolerance tolerance, const char* name) {
  const RelativeError error = relative_error(actual.values(), expected);
  EXPECT_LT(error.largest, tolerance.largest) << name;
  EXPECT_LT(error.rms, tolerance.rms) << name;
}

void expect_all_close(DType dtype, Tolerance tolerance) {
  Call call(dtype, AttentionAgainstReference::GetParam().shape, AttentionAgainstReference::GetParam().alibi);
  call.run();
  const AttentionReference expected = call.reference();
  expect_close(call.out, expected.out, tolerance, "out");
  expect_close(call.lse, expected.lse, {tolerance.largest / 4, tolerance.rms / 4}, "lse");
  expect_close(call.dv, expected.dv, tolerance, "dv");
  expect_close(call.dq, expected.dq, tolerance, "dq");
  expect_close(call.dk, expected.dk, tolerance, "dk");
}

TEST_P(AttentionAgainstReference, AgreesInFp32) { expect_all_close(DType::f32, {2e-5, 2e-6}); }
// bf16 keeps 8 bits: an error of 0.2 % (rms) of each of P, dS, out and the gradients. The first keys, which every query
// sees, have gradients several times the mean, and so errors.
TEST_P(AttentionAgainstReference, AgreesInBf16) { expect_all_close(DType::bf16, {0.1, 0.006}); }

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionAgainstReference,
    ::testing::Values(Case{{1, 1, 1, 1, 64}, false}, Case{{2, 17, 2, 2, 32}, false}, Case{{2, 65, 2, 1, 64}, true},
                      Case{{1, 300, 4, 2, 64}, false}, Case{{1, 300, 4, 1, 64}, true}, Case{{2, 64, 3, 3, 128}, false},
                      Case{{1, 129, 6, 2, 128}, true}, Case{{1, 130, 1, 1, 256}, false}, Case{{3, 63, 2, 1, 2}, false},
                      Case{{1, 191, 2, 2, 6}, true}, Case{{1, 100, 2, 1, 50}, false}, Case{{1, 70, 1, 1, 98}, true},
                      Case{{1, 256, 4, 4, 64}, false}, Case{{1, 128, 2, 2, 80}, false}, Case{{2, 1, 4, 2, 48}, true}));

TEST(Attention, GradientsAreFiniteDifferencesOfTheForward) {
  Call call(DType::f32, {1, 70, 2, 1, 6}, true);
  call.run();
  const auto loss = [&] {
    attention_forward_cpu(call.q, call.k, call.v, call.shape, call.options, call.out, call.lse);
    double sum = 0;
    for (std::int64_t i = 0; i < call.out.tensor().count(); ++i) sum += call.out.get(i) * call.dout.get(i);
    return sum;
  };
  const auto check = [&](Buffer& input, const Buffer& gradient, const char* name) {
    const double step = 1.0 / 64;
    for (std::int64_t i = 0; i < input.tensor().count(); i += 23) {
      const double value = input.get(i);
      input.set(i, value + step);
      const double above = loss();
      input.set(i, value - step);
      const double below = loss();
      input.set(i, value);
      EXPECT_NEAR((above - below) / (2 * step), gradient.get(i), 2e-3) << name << "[" << i << "]";
    }
  };
  check(call.q, call.dq, "q");
  check(call.k, call.dk, "k");
  check(call.v, call.dv, "v");
}

TEST(Attention, LargeLogitsNeitherOverflowNorLoseTheSum) {
  Call call(DType::f32, {1, 200, 1, 1, 64}, false);
  call.options.scale = 40;  // logits of several hundred, maxima that move from tile to tile
  call.run();
  const AttentionReference expected = call.reference();
  expect_close(call.out, expected.out, {2e-3, 1e-4}, "out");
  expect_close(call.lse, expected.lse, {1e-6, 1e-6}, "lse");
}

TEST(Attention, LogSumExpDoesNotDriftOverManyTiles) {
  const std::int64_t length = 8192;
  Call call(DType::f32, {1, length, 1, 1, 2}, false);
  for (std::int64_t i = 0; i < 2 * length; ++i) call.q.set(i, 0);  // every logit is 0
  attention_forward_cpu(call.q, call.k, call.v, call.shape, call.options, call.out, call.lse);
  for (std::int64_t i = 0; i < length; ++i) ASSERT_NEAR(call.lse.get(i), std::log(static_cast<double>(i + 1)), 1e-6) << i;
}

TEST(Attention, ANumberInTheFutureCannotReachAnEarlierToken) {
  Call call(DType::bf16, {1, 150, 2, 1, 32}, false);
  attention_forward_cpu(call.q, call.k, call.v, call.shape, call.options, call.out, call.lse);
  const std::vector<double> before = call.out.values();
  const std::int64_t cut = 77;
  for (std::int64_t i = cut * 32; i < 150 * 32; ++i) {
    call.k.set(i, 1e30);
    call.v.set(i, -1e30);
  }
  attention_forward_cpu(call.q, call.k, call.v, call.shape, call.options, call.out, call.lse);
  const std::vector<double> after = call.out.values();
  const auto earlier = static_cast<std::ptrdiff_t>(cut * 64);
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + earlier, after.begin()));
  EXPECT_NE(before, after);
}

TEST(Attention, ThreadsDoNotChangeABit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Call one(dtype, {1, 333, 4, 2, 64}, true);
    Call two(dtype, {1, 333, 4, 2, 64}, true);
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    one.run();
    omp_set_num_threads(2);
    two.run();
    omp_set_num_threads(threads);
    EXPECT_EQ(one.out.bits(), two.out.bits());
    EXPECT_EQ(one.lse.bits(), two.lse.bits());
    EXPECT_EQ(one.dq.bits(), two.dq.bits());
    EXPECT_EQ(one.dk.bits(), two.dk.bits());
    EXPECT_EQ(one.dv.bits(), two.dv.bits());
  }
}

TEST(Attention, RefusesAnOddHeadDim) {
  Call call(DType::f32, {1, 4, 1, 1, 2}, false);
  call.shape.head_dim = 3;
  EXPECT_THROW(attention_forward_cpu(call.q, call.k, call.v, call.shape, call.options, call.out, call.lse), Error);
}

}  // namespace
}  // namespace longwave
