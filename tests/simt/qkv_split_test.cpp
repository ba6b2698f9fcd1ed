// The QKV split on CUDA, with tables and with the series evaluated in the kernel, against the fp64 definition.
#include "tests/simt/qkv_reference.h"

namespace longwave {
namespace {

struct Case {
  AttentionShape shape;
  std::int64_t table_heads;  // 0: no table
  std::int64_t columns;
  float tail_sine;
  bool norm;
  std::int64_t frequencies = 0;  // of the series; 0: the table is given, not computed
  bool identity = false;         // the series has no coefficients
};

void PrintTo(const Case& c, std::ostream* stream) {
  *stream << "B" << c.shape.batch << " T" << c.shape.length << " H" << c.shape.heads << " G" << c.shape.kv_heads << " D"
          << c.shape.head_dim << " table heads " << c.table_heads << " columns " << c.columns << (c.norm ? " norm" : "");
  if (c.frequencies > 0) *stream << " frequencies " << c.frequencies << (c.identity ? " identity" : "");
}

constexpr double table_scale = 1.25;
constexpr float norm_epsilon = 1e-3f;
constexpr std::int64_t spare_positions = 3;  // the table is longer than the sequence

// w_i = theta^(-2i/hd) of a head_dim that is twice the number of frequencies
Values frequencies_of(std::int64_t count) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(count)));
  return values;
}

struct Outputs {
  DeviceTensor q, k, v, rstd, dqkv, dquery_gain, dkey_gain, dcosine, dsine;

  Outputs(AttentionShape s, Shape table)
      : q(DType::bf16, {s.batch, s.heads, s.length, s.head_dim}),
        k(DType::bf16, {s.batch, s.kv_heads, s.length, s.head_dim}),
        v(DType::bf16, {s.batch, s.kv_heads, s.length, s.head_dim}),
        rstd(DType::f32, {s.batch, s.heads + s.kv_heads, s.length}),
        dqkv(DType::bf16, {s.batch * s.length, (s.heads + 2 * s.kv_heads) * s.head_dim}, "old"),
        dquery_gain(DType::f32, {s.head_dim}, "old dquery_gain"),
        dkey_gain(DType::f32, {s.head_dim}, "old dkey_gain"),
        dcosine(DType::f32, table, "old dcosine"),
        dsine(DType::f32, table, "old dsine") {}
};

struct Split {
  Case c;
  AttentionShape shape;
  Shape table_shape, coefficient_shape;
  DeviceTensor qkv, dq, dk, dv, query_gain, key_gain, cosine, sine;
  DeviceTensor frequencies, cosine_coefficients, sine_coefficients;

  explicit Split(const Case& chosen)
      : c(chosen), shape(c.shape), table_shape{c.table_heads, shape.length + spare_positions, c.columns},
        coefficient_shape{c.table_heads, c.frequencies, c.columns},
        qkv(DType::bf16, {shape.batch * shape.length, (shape.heads + 2 * shape.kv_heads) * shape.head_dim}, "qkv", 2),
        dq(DType::bf16, {shape.batch, shape.heads, shape.length, shape.head_dim}, "dq"),
        dk(DType::bf16, {shape.batch, shape.kv_heads, shape.length, shape.head_dim}, "dk"),
        dv(DType::bf16, {shape.batch, shape.kv_heads, shape.length, shape.head_dim}, "dv"),
        query_gain(DType::bf16, {shape.head_dim}, "query gain"),
        key_gain(DType::bf16, {shape.head_dim}, "key gain"),
        cosine(DType::f32, table_shape, "cosine"),
        sine(DType::f32, table_shape, "sine"),
        frequencies(DType::f64, {c.frequencies}, frequencies_of(c.frequencies)),
        cosine_coefficients(DType::f32, coefficient_shape, "cosine coefficients", 0.3),
        sine_coefficients(DType::f32, coefficient_shape, "sine coefficients", 0.3) {}

  QkNorm norm() const { return c.norm ? QkNorm{query_gain, key_gain, norm_epsilon} : QkNorm{}; }
  PositionTable table() const {
    return c.table_heads > 0 ? PositionTable{cosine, sine, 1, c.tail_sine, {}} : PositionTable{};
  }
  // The same, not in memory.
  PositionTable series() const {
    PositionTable result = table();
    result.cosine.data = result.sine.data = nullptr;
    result.series.frequencies = frequencies;
    result.series.scale = table_scale;
    if (c.identity) return result;
    result.series.cosine_coefficients = cosine_coefficients;
    result.series.sine_coefficients = sine_coefficients;
    return result;
  }
  void build_table() const {
    const PositionSeries from = series().series;
    backend_under_test().position_table(frequencies, from.cosine_coefficients, from.sine_coefficients, table_scale, table());
  }

  void run(const PositionTable& from, bool with_table_gradient, Outputs& out) const {
    Backend& backend = backend_under_test();
    const PositionTable dtable = {out.dcosine, out.dsine, 1, 0, {}};
    backend.qkv_split_forward(qkv, shape, from, norm(), out.q, out.k, out.v, out.rstd);
    backend.qkv_split_backward(dq, dk, dv, qkv, shape, from, norm(), out.rstd, out.dqkv, out.dquery_gain, out.dkey_gain,
                               with_table_gradient ? &dtable : nullptr);
  }

  QkvInputs inputs() const {
    QkvInputs in;
    in.shape = shape;
    in.qkv = qkv.read();
    in.dq = dq.read(), in.dk = dk.read(), in.dv = dv.read();
    if (c.norm) in.query_gain = query_gain.read(), in.key_gain = key_gain.read();
    in.epsilon = static_cast<double>(norm_epsilon);
    in.table_heads = c.table_heads, in.positions = table_shape[1], in.columns = c.columns;
    in.cosine = cosine.read(), in.sine = sine.read();
    in.tail_sine = static_cast<double>(c.tail_sine);
    return in;
  }

  // As inputs(), with the table in fp64.
  QkvInputs series_inputs() const {
    QkvInputs in = inputs();
    const Values w = frequencies.read(), cosine_weight = cosine_coefficients.read(), sine_weight = sine_coefficients.read();
    for (std::int64_t entry = 0; entry < table_shape.count(); ++entry) {
      const std::int64_t j = entry % c.columns, t = entry / c.columns % table_shape[1], head = entry / c.columns / table_shape[1];
      double cosine_sum = 0, sine_sum = 0;
      for (std::int64_t i = 0; i < c.frequencies; ++i) {
        const auto weight = static_cast<std::size_t>((head * c.frequencies + i) * c.columns + j);
        const double angle = static_cast<double>(t) * w[static_cast<std::size_t>(i)];
        cosine_sum += std::cos(angle) * (c.identity ? (i == j ? 1 : 0) : cosine_weight[weight]);
        sine_sum += std::sin(angle) * (c.identity ? (i == j ? 1 : 0) : sine_weight[weight]);
      }
      in.cosine[static_cast<std::size_t>(entry)] = table_scale * cosine_sum;
      in.sine[static_cast<std::size_t>(entry)] = table_scale * sine_sum;
    }
    return in;
  }

  void expect(const Outputs& out, const QkvResults& expected, double relative, double absolute) const {
    expect_close(out.q.read(), expected.q, relative, absolute, "q");
    expect_close(out.k.read(), expected.k, relative, absolute, "k");
    expect_close(out.v.read(), expected.v, 0, 0, "v");
    expect_close(out.dqkv.read(), expected.dqkv, relative, absolute, "dqkv");
    if (!c.norm) return;
    expect_close(out.rstd.read(), expected.rstd, 1e-5, 0, "rstd");
    const Outputs old(shape, table_shape);
    expect_close(out.dquery_gain.read(), sum(old.dquery_gain.read(), expected.dquery_gain), 1e-5, 1e-4, "dquery_gain");
    expect_close(out.dkey_gain.read(), sum(old.dkey_gain.read(), expected.dkey_gain), 1e-5, 1e-4, "dkey_gain");
  }

  static Values sum(Values a, const Values& b) {
    for (std::size_t i = 0; i < b.size(); ++i) a[i] += b[i];
    return a;
  }
};

const double rounding = rounding_of(DType::bf16) + 1e-5;

// ---- the reference itself: its gradients are the finite differences of its forward

TEST(QkvReference, GradientsAreFiniteDifferences) {
  const Split split({{1, 2, 2, 1, 64}, 1, 7, 1, true});
  QkvInputs in = split.inputs();
  const QkvResults results = qkv_reference(in);
  const auto loss = [&] {
    const QkvResults r = qkv_reference(in);
    double total = 0;
    for (std::size_t i = 0; i < r.q.size(); ++i) total += r.q[i] * in.dq[i];
    for (std::size_t i = 0; i < r.k.size(); ++i) total += r.k[i] * in.dk[i] + r.v[i] * in.dv[i];
    return total;
  };
  const auto check = [&](Values& input, const Values& gradient, std::size_t stride, const char* what) {
    ASSERT_EQ(input.size(), gradient.size()) << what;
    for (std::size_t i = 0; i < input.size(); i += stride) {
      const double value = input[i], step = 1e-5;
      input[i] = value + step;
      const double above = loss();
      input[i] = value - step;
      const double below = loss();
      input[i] = value;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 1e-6) << what << "[" << i << "]";
    }
  };
  check(in.qkv, results.dqkv, 7, "qkv");
  check(in.query_gain, results.dquery_gain, 5, "query_gain");
  check(in.key_gain, results.dkey_gain, 5, "key_gain");
  check(in.cosine, results.dcosine, 3, "cosine");
  check(in.sine, results.dsine, 3, "sine");
}

// ---- with a table

class CudaQkvSplit : public ::testing::TestWithParam<Case> {};

TEST_P(CudaQkvSplit, AgreesWithTheDefinitionForwardAndBackward) {
  const Split split(GetParam());
  Outputs out(split.shape, split.table_shape);
  const bool tabulated = split.c.table_heads > 0;
  split.run(split.table(), tabulated, out);
  const QkvResults expected = qkv_reference(split.inputs());
  split.expect(out, expected, rounding, 2e-5);
  if (!tabulated) return;
  const Outputs old(split.shape, split.table_shape);
  expect_close(out.dcosine.read(), Split::sum(old.dcosine.read(), expected.dcosine), 1e-5, 1e-4, "dcosine");
  expect_close(out.dsine.read(), Split::sum(old.dsine.read(), expected.dsine), 1e-5, 1e-4, "dsine");
}

INSTANTIATE_TEST_SUITE_P(Kinds, CudaQkvSplit,
                         ::testing::Values(Case{{2, 5, 4, 2, 64}, 0, 0, 0, false},       // nope, alibi
                                           Case{{2, 5, 4, 2, 64}, 1, 32, 0, false},      // rope
                                           Case{{2, 5, 4, 2, 64}, 2, 16, 1, false},      // fope
                                           Case{{1, 70, 2, 2, 64}, 2, 7, 1, true},       // fope with norm
                                           Case{{3, 3, 6, 2, 128}, 2, 31, 1, true},      // columns of no whole vectors
                                           Case{{2, 1, 4, 4, 128}, 1, 0, 1, false},      // constant pairs only
                                           Case{{2, 9, 4, 1, 128}, 0, 0, 0, true},       // norm alone
                                           Case{{1, 1100, 8, 1, 64}, 0, 0, 0, true}));   // more than a grid of the gain's gradient

// ---- without one

class CudaQkvSeries : public ::testing::TestWithParam<Case> {};

TEST_P(CudaQkvSeries, AgreesWithTheDefinitionAndWithTheTable) {
  const Split split(GetParam());
  Outputs series(split.shape, split.table_shape), table(split.shape, split.table_shape);
  split.run(split.series(), false, series);
  split.build_table();
  split.run(split.table(), false, table);
  split.expect(series, qkv_reference(split.series_inputs()), rounding, 5e-5);
  // The waves differ in the last bits of fp32 at most, so few results round to another bf16, and those to the next.
  const auto expect_same = [](const Values& a, const Values& b, const char* what) {
    expect_close(a, b, std::ldexp(1.0, -7), 1e-4, what);
    std::size_t different = 0;
    for (std::size_t i = 0; i < a.size(); ++i) different += a[i] != b[i] ? 1 : 0;
    EXPECT_LE(different, a.size() / 100) << what;
  };
  expect_same(series.q.read(), table.q.read(), "q");
  expect_same(series.k.read(), table.k.read(), "k");
  expect_same(series.dqkv.read(), table.dqkv.read(), "dqkv");
}

TEST_P(CudaQkvSeries, GivesTheSameBitsAgain) {
  const Split split(GetParam());
  Outputs once(split.shape, split.table_shape), again(split.shape, split.table_shape);
  split.run(split.series(), false, once);
  split.run(split.series(), false, again);
  EXPECT_EQ(once.q.read(), again.q.read());
  EXPECT_EQ(once.dqkv.read(), again.dqkv.read());
  EXPECT_EQ(once.dquery_gain.read(), again.dquery_gain.read());
  EXPECT_EQ(once.dkey_gain.read(), again.dkey_gain.read());
}

INSTANTIATE_TEST_SUITE_P(Kinds, CudaQkvSeries,
                         ::testing::Values(Case{{2, 5, 4, 2, 64}, 2, 16, 1, false, 20},        // fope
                                           Case{{2, 37, 4, 2, 64}, 2, 15, 1, true, 33},        // more frequencies than a tile
                                           Case{{1, 65, 3, 1, 128}, 1, 32, 1, true, 47},       // the paper's head_dim
                                           Case{{1, 33, 2, 2, 128}, 2, 64, 0, false, 70},      // more columns than threads
                                           Case{{2, 34, 2, 2, 64}, 1, 32, 0, true, 32, true},  // rope
                                           Case{{1, 4, 2, 1, 64}, 1, 5, 0, false, 40, false}));

// Angles as large as in a text of millions of tokens, where fp32 would be wrong by a quarter.
TEST(CudaQkvSeriesFarOut, AnglesAreExact) {
  Split split({{1, 70, 2, 1, 64}, 1, 4, 1, false, 4});
  split.frequencies.write({79432.82347242815, 50118.72336272722, 1000.0, 0.5});
  Outputs out(split.shape, split.table_shape);
  split.run(split.series(), false, out);
  split.expect(out, qkv_reference(split.series_inputs()), rounding, 5e-5);
}

TEST(CudaQkvSeriesUse, LearnableTablesStayInMemory) {
  const Split split({{1, 4, 2, 1, 64}, 1, 5, 0, false, 6});
  Outputs out(split.shape, split.table_shape);
  EXPECT_THROW(split.run(split.series(), true, out), Error);
}

}  // namespace
}  // namespace longwave
