#include "core/backend/cpu/qkv_split.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <ostream>
#include <vector>

#include "tests/unit/attention/buffer.h"

namespace longwave {
namespace {

using testing::Buffer;
using testing::relative_error;
using testing::RelativeError;

struct Case {
  AttentionShape shape;
  std::int64_t table_heads;  // 0: no table
  std::int64_t columns;
  float tail_sine;
  bool norm;
};

void PrintTo(const Case& c, std::ostream* stream) {
  *stream << "B" << c.shape.batch << " T" << c.shape.length << " H" << c.shape.heads << " G" << c.shape.kv_heads << " D"
          << c.shape.head_dim << " table heads " << c.table_heads << " columns " << c.columns << (c.norm ? " norm" : "");
}

constexpr std::int64_t spare_positions = 3;  // the table is longer than the sequence

struct Split {
  AttentionShape shape;
  std::int64_t qkv_row;
  Buffer qkv, q, k, v, rstd, query_gain, key_gain, cosine, sine;
  Buffer dq, dk, dv, dqkv, dquery_gain, dkey_gain, dcosine, dsine;
  PositionTable table, dtable;
  QkNorm norm;

  Split(DType dtype, const Case& c)
      : shape(c.shape),
        qkv_row((shape.heads + 2 * shape.kv_heads) * shape.head_dim),
        qkv(dtype, {shape.batch * shape.length, qkv_row}),
        q(dtype, {shape.batch, shape.heads, shape.length, shape.head_dim}),
        k(dtype, {shape.batch, shape.kv_heads, shape.length, shape.head_dim}),
        v(dtype, {shape.batch, shape.kv_heads, shape.length, shape.head_dim}),
        rstd(DType::f32, {shape.batch, shape.heads + shape.kv_heads, shape.length}),
        query_gain(dtype, {shape.head_dim}),
        key_gain(dtype, {shape.head_dim}),
        cosine(DType::f32, {c.table_heads, shape.length + spare_positions, c.columns}),
        sine(DType::f32, {c.table_heads, shape.length + spare_positions, c.columns}),
        dq(dtype, q.tensor().shape),
        dk(dtype, k.tensor().shape),
        dv(dtype, v.tensor().shape),
        dqkv(dtype, qkv.tensor().shape),
        dquery_gain(DType::f32, {shape.head_dim}),
        dkey_gain(DType::f32, {shape.head_dim}),
        dcosine(DType::f32, cosine.tensor().shape),
        dsine(DType::f32, sine.tensor().shape) {
    qkv.fill_normal("qkv", 2);
    query_gain.fill_normal("query gain", 0.2, 1);
    key_gain.fill_normal("key gain", 0.2, 1);
    cosine.fill_normal("cosine");
    sine.fill_normal("sine");
    dq.fill_normal("dq");
    dk.fill_normal("dk");
    dv.fill_normal("dv");
    if (c.table_heads > 0) {
      table.cosine = cosine;
      table.sine = sine;
      dtable.cosine = dcosine;
      dtable.sine = dsine;
      table.tail_sine = c.tail_sine;
    }
    if (c.norm) {
      norm.query_gain = query_gain;
      norm.key_gain = key_gain;
      norm.epsilon = 1e-3f;
    }
  }

  void forward() { qkv_split_forward_cpu(qkv, shape, table, norm, q, k, v, rstd); }
  void backward() {
    qkv_split_backward_cpu(dq, dk, dv, qkv, shape, table, norm, rstd, dqkv, dquery_gain, dkey_gain,
                           table.active() ? &dtable : nullptr);
  }
};

struct SplitReference {
  std::vector<double> q, k, v;
};

// What the forward computes, element by element in fp64.
SplitReference split_reference(const Split& s) {
  const auto [batch, length, heads, kv_heads, head_dim] = s.shape;
  SplitReference result;
  result.q.resize(static_cast<std::size_t>(s.q.tensor().count()));
  result.k.resize(static_cast<std::size_t>(s.k.tensor().count()));
  result.v.resize(static_cast<std::size_t>(s.v.tensor().count()));
  const std::int64_t half = head_dim / 2;
  std::vector<double> x(static_cast<std::size_t>(head_dim));
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t t = 0; t < length; ++t) {
      for (std::int64_t head = 0; head < heads + 2 * kv_heads; ++head) {
        double square = 0;
        for (std::int64_t d = 0; d < head_dim; ++d) {
          x[static_cast<std::size_t>(d)] = s.qkv.get((b * length + t) * s.qkv_row + head * head_dim + d);
          square += x[static_cast<std::size_t>(d)] * x[static_cast<std::size_t>(d)];
        }
        const bool is_query = head < heads, is_value = head >= heads + kv_heads;
        const std::int64_t local = is_query ? head : (head - heads) % kv_heads;
        const std::int64_t kv_head = is_query ? head / (heads / kv_heads) : local;
        if (s.norm.query_gain && !is_value) {
          const double rstd = 1 / std::sqrt(square / static_cast<double>(head_dim) + static_cast<double>(s.norm.epsilon));
          for (std::int64_t d = 0; d < head_dim; ++d) {
            x[static_cast<std::size_t>(d)] *= rstd * (is_query ? s.query_gain : s.key_gain).get(d);
          }
        }
        std::vector<double>& to = is_query ? result.q : is_value ? result.v : result.k;
        const std::int64_t row = ((b * (is_query ? heads : kv_heads) + local) * length + t) * head_dim;
        for (std::int64_t j = 0; j < half; ++j) {
          double cosine = 1, sine = 0;
          if (s.table.active() && !is_value) {
            cosine = static_cast<double>(s.table.tail_cosine);
            sine = static_cast<double>(s.table.tail_sine);
            if (j < s.table.columns()) {
              const std::int64_t table_head = s.table.heads() == 1 ? 0 : kv_head;
              const std::int64_t at = (table_head * s.table.positions() + t) * s.table.columns() + j;
              cosine = s.cosine.get(at);
              sine = s.sine.get(at);
            }
          }
          const double low = x[static_cast<std::size_t>(j)], high = x[static_cast<std::size_t>(j + half)];
          to[static_cast<std::size_t>(row + j)] = low * cosine - high * sine;
          to[static_cast<std::size_t>(row + j + half)] = high * cosine + low * sine;
        }
      }
    }
  }
  return result;
}

double dot(const std::vector<double>& a, const Buffer& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b.get(static_cast<std::int64_t>(i));
  return sum;
}

class QkvSplit : public ::testing::TestWithParam<Case> {};

void expect_forward(DType dtype, double tolerance) {
  Split split(dtype, QkvSplit::GetParam());
  split.forward();
  const SplitReference expected = split_reference(split);
  EXPECT_LT(relative_error(split.q.values(), expected.q).largest, tolerance);
  EXPECT_LT(relative_error(split.k.values(), expected.k).largest, tolerance);
  EXPECT_EQ(split.v.values(), expected.v);
}

TEST_P(QkvSplit, AgreesWithTheDefinitionInFp32) { expect_forward(DType::f32, 3e-6); }
// One rounding, half a unit in the last of 8 bits, of values up to 6 times the mean.
TEST_P(QkvSplit, AgreesWithTheDefinitionInBf16) { expect_forward(DType::bf16, 6.0 / 256); }

// The loss dq.q + dk.k + dv.v of the fp64 reference, differentiated numerically with respect to every input.
TEST_P(QkvSplit, GradientsAreFiniteDifferencesOfTheReference) {
  Split split(DType::f32, GetParam());
  split.forward();
  split.backward();
  const auto loss = [&] {
    const SplitReference reference = split_reference(split);
    return dot(reference.q, split.dq) + dot(reference.k, split.dk) + dot(reference.v, split.dv);
  };
  const auto check = [&](Buffer& input, const Buffer& gradient, std::int64_t stride, const char* name) {
    const double step = 1.0 / 1024;
    for (std::int64_t i = 0; i < input.tensor().count(); i += stride) {
      const double value = input.get(i);
      input.set(i, value + step);
      const double above = loss(), up = input.get(i);
      input.set(i, value - step);
      const double below = loss(), down = input.get(i);
      input.set(i, value);
      const double expected = (above - below) / (up - down);
      EXPECT_NEAR(gradient.get(i), expected, 2e-4 * (1 + std::fabs(expected))) << name << "[" << i << "]";
    }
  };
  check(split.qkv, split.dqkv, split.qkv.tensor().count() / 40 | 1, "qkv");
  if (GetParam().norm) {
    check(split.query_gain, split.dquery_gain, 5, "query_gain");
    check(split.key_gain, split.dkey_gain, 5, "key_gain");
  }
  if (split.table.active()) {
    const std::int64_t stride = split.cosine.tensor().count() / 20 | 1;
    check(split.cosine, split.dcosine, stride, "cosine");
    check(split.sine, split.dsine, stride, "sine");
  }
}

TEST_P(QkvSplit, Bf16GradientsAreTheFp32OnesRounded) {
  Split half(DType::bf16, GetParam());
  Split full(DType::f32, GetParam());
  const auto same = [](const Buffer& from, Buffer& to) {
    for (std::int64_t i = 0; i < from.tensor().count(); ++i) to.set(i, from.get(i));
  };
  same(half.qkv, full.qkv);
  same(half.query_gain, full.query_gain);
  same(half.key_gain, full.key_gain);
  same(half.dq, full.dq);
  same(half.dk, full.dk);
  same(half.dv, full.dv);
  for (Split* split : {&half, &full}) {
    split->forward();
    split->backward();
  }
  const auto close = [](const Buffer& a, const Buffer& b, double tolerance, const char* name) {
    EXPECT_LT(relative_error(a.values(), b.values()).largest, tolerance) << name;
  };
  close(half.dqkv, full.dqkv, 8.0 / 256, "dqkv");
  close(half.dquery_gain, full.dquery_gain, 1e-6, "dquery_gain");
  close(half.dkey_gain, full.dkey_gain, 1e-6, "dkey_gain");
  close(half.dcosine, full.dcosine, 1e-6, "dcosine");
  close(half.dsine, full.dsine, 1e-6, "dsine");
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, QkvSplit,
    ::testing::Values(Case{{2, 5, 4, 2, 64}, 0, 0, 0, false},    // nope, alibi
                      Case{{2, 5, 4, 2, 64}, 1, 32, 0, false},   // rope
                      Case{{2, 5, 4, 2, 64}, 2, 16, 1, false},   // fope
                      Case{{1, 70, 2, 2, 32}, 2, 7, 1, true},    // fope with norm
                      Case{{3, 2, 6, 2, 50}, 2, 13, 0, true},    // a head_dim of no whole vectors
                      Case{{1, 3, 2, 1, 6}, 1, 2, 1, true},      // smaller than a vector
                      Case{{2, 1, 4, 4, 256}, 1, 0, 1, false},   // constant pairs only
                      Case{{2, 9, 4, 1, 128}, 0, 0, 0, true}));  // norm alone

TEST(QkvSplit, BackwardAddsToTheGradientsOfGainsAndTables) {
  Split split(DType::f32, {{2, 6, 2, 1, 32}, 1, 10, 1, true});
  split.forward();
  split.backward();
  const std::vector<double> gain_once = split.dquery_gain.values(), cosine_once = split.dcosine.values();
  const std::vector<double> qkv_once = split.dqkv.values();
  split.backward();
  for (std::size_t i = 0; i < gain_once.size(); ++i) {
    EXPECT_NEAR(split.dquery_gain.get(static_cast<std::int64_t>(i)), 2 * gain_once[i], 1e-5);
  }
  for (std::size_t i = 0; i < cosine_once.size(); ++i) {
    EXPECT_NEAR(split.dcosine.get(static_cast<std::int64_t>(i)), 2 * cosine_once[i], 1e-4);
  }
  EXPECT_EQ(split.dqkv.values(), qkv_once);
}

TEST(QkvSplit, ThreadsDoNotChangeABit) {
  const Case shape{{3, 100, 4, 2, 64}, 2, 16, 1, true};
  Split one(DType::bf16, shape), two(DType::bf16, shape);
  const int threads = omp_get_max_threads();
  const auto run = [](Split& split, int count) {
    omp_set_num_threads(count);
    split.forward();
    split.backward();
  };
  run(one, 1);
  run(two, 2);
  omp_set_num_threads(threads);
  EXPECT_EQ(one.q.bits(), two.q.bits());
  EXPECT_EQ(one.rstd.bits(), two.rstd.bits());
  EXPECT_EQ(one.dqkv.bits(), two.dqkv.bits());
  EXPECT_EQ(one.dquery_gain.bits(), two.dquery_gain.bits());
  EXPECT_EQ(one.dkey_gain.bits(), two.dkey_gain.bits());
  EXPECT_EQ(one.dcosine.bits(), two.dcosine.bits());
  EXPECT_EQ(one.dsine.bits(), two.dsine.bits());
}

TEST(QkvSplit, RefusesATableShorterThanTheSequence) {
  Split split(DType::f32, {{1, 6, 2, 1, 32}, 1, 10, 1, false});
  split.table.cosine.shape = {1, 5, 10};
  split.table.sine.shape = {1, 5, 10};
  EXPECT_THROW(split.forward(), Error);
}

}  // namespace
}  // namespace longwave
