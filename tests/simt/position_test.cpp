// QKV split and position tables on CUDA against the CPU backend in fp32, which its own tests hold against the definitions.
#include <cmath>

#include "tests/unit/backend/device_tensor.h"

namespace longwave {
namespace {

// The same values in the memory of the device under test, in bf16 or fp32, and of the CPU, in fp32.
class Pair {
 public:
  Pair(DType dtype, Shape shape, const std::string& name, double scale = 1, double mean = 0)
      : device_(dtype, shape), cpu_values_(static_cast<std::size_t>(shape.count())) {
    const RandomKey key(13, "pair", name);
    Values values;
    for (std::size_t i = 0; i < cpu_values_.size(); ++i) values.push_back(mean + scale * key.normal(i));
    device_.write(values);
    values = device_.read();  // as rounded
    for (std::size_t i = 0; i < values.size(); ++i) cpu_values_[i] = static_cast<float>(values[i]);
    cpu_ = Tensor(cpu_values_.data(), DType::f32, shape);
  }
  Pair(DType dtype, Shape shape) : Pair(dtype, shape, "", 0) {}

  Tensor device() const { return device_; }
  Tensor cpu() const { return cpu_; }
  void expect_same(double relative, double absolute, const char* what) const {
    expect_close(device_.read(), Values(cpu_values_.begin(), cpu_values_.end()), relative, absolute, what);
  }

 private:
  DeviceTensor device_;
  std::vector<float> cpu_values_;
  Tensor cpu_;
};

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

struct Split {
  AttentionShape shape;
  Shape query_shape{shape.batch, shape.heads, shape.length, shape.head_dim};
  Shape key_shape{shape.batch, shape.kv_heads, shape.length, shape.head_dim};
  Shape qkv_shape{shape.batch * shape.length, (shape.heads + 2 * shape.kv_heads) * shape.head_dim};
  Shape table_shape;
  Pair qkv{DType::bf16, qkv_shape, "qkv", 2}, q{DType::bf16, query_shape}, k{DType::bf16, key_shape}, v{DType::bf16, key_shape};
  Pair rstd{DType::f32, {shape.batch, shape.heads + shape.kv_heads, shape.length}};
  Pair query_gain{DType::bf16, {shape.head_dim}, "query gain", 0.2, 1}, key_gain{DType::bf16, {shape.head_dim}, "key gain", 0.2, 1};
  Pair cosine{DType::f32, table_shape, "cosine"}, sine{DType::f32, table_shape, "sine"};
  Pair dq{DType::bf16, query_shape, "dq"}, dk{DType::bf16, key_shape, "dk"}, dv{DType::bf16, key_shape, "dv"};
  Pair dqkv{DType::bf16, qkv_shape, "old"};
  Pair dquery_gain{DType::f32, {shape.head_dim}, "old dquery_gain"}, dkey_gain{DType::f32, {shape.head_dim}, "old dkey_gain"};
  Pair dcosine{DType::f32, table_shape, "old dcosine"}, dsine{DType::f32, table_shape, "old dsine"};
  bool has_table, has_norm;
  float tail_sine;

  explicit Split(const Case& c)
      : shape(c.shape), table_shape{c.table_heads, shape.length + 3, c.columns}, has_table(c.table_heads > 0), has_norm(c.norm),
        tail_sine(c.tail_sine) {}

  void run(Backend& backend, Tensor (Pair::*side)() const) {
    const auto of = [side](const Pair& pair) { return (pair.*side)(); };
    PositionTable table, dtable;
    if (has_table) {
      table = {of(cosine), of(sine), 1, tail_sine};
      dtable = {of(dcosine), of(dsine), 1, 0};
    }
    QkNorm norm;
    if (has_norm) norm = {of(query_gain), of(key_gain), 1e-3f};
    backend.qkv_split_forward(of(qkv), shape, table, norm, of(q), of(k), of(v), of(rstd));
    backend.qkv_split_backward(of(dq), of(dk), of(dv), of(qkv), shape, table, norm, of(rstd), of(dqkv), of(dquery_gain),
                               of(dkey_gain), has_table ? &dtable : nullptr);
  }
};

class CudaQkvSplit : public ::testing::TestWithParam<Case> {};

TEST_P(CudaQkvSplit, AgreesWithTheDefinitionForwardAndBackward) {
  Split split(GetParam());
  split.run(backend_under_test(), &Pair::device);
  split.run(*make_cpu_backend(), &Pair::cpu);
  const double rounding = rounding_of(DType::bf16) + 1e-5;
  split.q.expect_same(rounding, 2e-5, "q");
  split.k.expect_same(rounding, 2e-5, "k");
  split.v.expect_same(0, 0, "v");
  split.rstd.expect_same(1e-5, 0, "rstd");
  split.dqkv.expect_same(rounding, 2e-5, "dqkv");
  split.dquery_gain.expect_same(1e-5, 1e-4, "dquery_gain");
  split.dkey_gain.expect_same(1e-5, 1e-4, "dkey_gain");
  split.dcosine.expect_same(1e-5, 1e-4, "dcosine");
  split.dsine.expect_same(1e-5, 1e-4, "dsine");
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
