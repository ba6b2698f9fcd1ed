#include "core/backend/cpu/position_table.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "tests/unit/attention/buffer.h"

namespace longwave {
namespace {

using testing::Buffer;

std::vector<double> rope_frequencies(std::int64_t head_dim, std::int64_t count) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < count; ++i) {
    frequencies.push_back(std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  }
  return frequencies;
}

// A table with random coefficients, identity plus noise as FoPE's.
struct Fope {
  std::vector<double> frequencies;
  std::int64_t rows;
  Buffer cosine_weights, sine_weights, cosine, sine;

  Fope(std::int64_t heads, std::int64_t positions, std::int64_t frequency_count, std::int64_t columns)
      : frequencies(rope_frequencies(64, frequency_count)),
        rows(frequency_count),
        cosine_weights(DType::f32, {heads, rows, columns}),
        sine_weights(DType::f32, {heads, rows, columns}),
        cosine(DType::f32, {heads, positions, columns}),
        sine(DType::f32, {heads, positions, columns}) {
    cosine_weights.fill_normal("Wcos", 0.02);
    sine_weights.fill_normal("Wsin", 0.02);
    for (Buffer* weights : {&cosine_weights, &sine_weights}) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t j = 0; j < std::min(rows, columns); ++j) {
          const std::int64_t at = (h * rows + j) * columns + j;
          weights->set(at, weights->get(at) + 1);
        }
      }
    }
  }

  Tensor frequency_tensor() { return {frequencies.data(), DType::f64, {rows}}; }
  PositionTable table() {
    PositionTable result;
    result.cosine = cosine;
    result.sine = sine;
    return result;
  }
  void compute(double scale = 1) { position_table_cpu(frequency_tensor(), cosine_weights, sine_weights, scale, table()); }
};

// The definition in long double, angle reduced by whole turns.
long double wave_sum(const std::vector<double>& frequencies, const Buffer& weights, std::int64_t head, std::int64_t columns,
                     std::int64_t position, std::int64_t column, bool cosine) {
  const long double turn = 2 * std::numbers::pi_v<long double>;
  const auto rows = static_cast<std::int64_t>(frequencies.size());
  long double sum = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const long double angle =
        std::fmod(static_cast<long double>(position) * static_cast<long double>(frequencies[static_cast<std::size_t>(i)]), turn);
    sum += (cosine ? std::cos(angle) : std::sin(angle)) *
           static_cast<long double>(weights.get((head * rows + i) * columns + column));
  }
  return sum;
}

TEST(PositionTable, WithoutCoefficientsIsRope) {
  std::vector<double> frequencies = rope_frequencies(64, 32);
  Buffer cosine(DType::f32, {1, 600, 32}), sine(DType::f32, {1, 600, 32});
  PositionTable table;
  table.cosine = cosine;
  table.sine = sine;
  position_table_cpu({frequencies.data(), DType::f64, {32}}, {}, {}, 1, table);
  for (std::int64_t t = 0; t < 600; ++t) {
    for (std::int64_t j = 0; j < 32; ++j) {
      const double angle = static_cast<double>(t) * frequencies[static_cast<std::size_t>(j)];
      ASSERT_NEAR(cosine.get(t * 32 + j), std::cos(angle), 1e-7) << t << " " << j;
      ASSERT_NEAR(sine.get(t * 32 + j), std::sin(angle), 1e-7) << t << " " << j;
    }
  }
}

TEST(PositionTable, IdentityCoefficientsGiveTheSameAsNone) {
  Fope with(1, 50, 16, 16);
  Fope without(1, 50, 16, 16);
  for (std::int64_t i = 0; i < 256; ++i) {
    with.cosine_weights.set(i, i % 17 == 0 ? 1 : 0);
    with.sine_weights.set(i, i % 17 == 0 ? 1 : 0);
  }
  with.compute(1.25);
  position_table_cpu(without.frequency_tensor(), {}, {}, 1.25, without.table());
  EXPECT_EQ(with.cosine.bits(), without.cosine.bits());
  EXPECT_EQ(with.sine.bits(), without.sine.bits());
}

TEST(PositionTable, AtTheOriginCosinesAreColumnSumsAndSinesZero) {
  Fope fope(3, 4, 18, 16);
  fope.compute();
  for (std::int64_t h = 0; h < 3; ++h) {
    for (std::int64_t j = 0; j < 16; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < 18; ++i) sum += fope.cosine_weights.get((h * 18 + i) * 16 + j);
      EXPECT_NEAR(fope.cosine.get(h * 4 * 16 + j), sum, 1e-6);
      EXPECT_EQ(fope.sine.get(h * 4 * 16 + j), 0);
    }
  }
}

TEST(PositionTable, ALongerTableBeginsWithTheShorter) {
  Fope shorter(2, 128, 11, 11);
  Fope longer(2, 1024, 11, 11);
  shorter.compute();
  longer.compute();
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t i = 0; i < 128 * 11; ++i) {
      ASSERT_EQ(shorter.cosine.get(h * 128 * 11 + i), longer.cosine.get(h * 1024 * 11 + i));
      ASSERT_EQ(shorter.sine.get(h * 128 * 11 + i), longer.sine.get(h * 1024 * 11 + i));
    }
  }
}

TEST(PositionTable, IsWithin2e6AtPosition65535) {
  const std::int64_t positions = 65536, columns = 16;
  Fope fope(2, positions, 16, columns);
  fope.compute();
  for (const std::int64_t t : {1, 511, 4097, 32768, 65000, 65534, 65535}) {
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const std::int64_t at = (h * positions + t) * columns + j;
        EXPECT_NEAR(fope.cosine.get(at),
                    static_cast<double>(wave_sum(fope.frequencies, fope.cosine_weights, h, columns, t, j, true)), 3e-7);
        EXPECT_NEAR(fope.sine.get(at),
                    static_cast<double>(wave_sum(fope.frequencies, fope.sine_weights, h, columns, t, j, false)), 3e-7);
      }
    }
  }
}

TEST(PositionTable, BackwardIsTheTransposeOfTheForwardAndAccumulates) {
  const std::int64_t heads = 2, positions = 37, rows = 9, columns = 5;
  Fope fope(heads, positions, rows, columns);
  Buffer dcosine(DType::f32, {heads, positions, columns}), dsine(DType::f32, {heads, positions, columns});
  Buffer dcosine_weights(DType::f32, {heads, rows, columns}), dsine_weights(DType::f32, {heads, rows, columns});
  dcosine.fill_normal("dC");
  dsine.fill_normal("dS");
  PositionTable dtable;
  dtable.cosine = dcosine;
  dtable.sine = dsine;
  for (std::int64_t i = 0; i < heads * rows * columns; ++i) dcosine_weights.set(i, 3);
  position_table_backward_cpu(fope.frequency_tensor(), dtable, dcosine_weights, dsine_weights);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        double cosine = 3, sine = 0;
        for (std::int64_t t = 0; t < positions; ++t) {
          const double angle = static_cast<double>(t) * fope.frequencies[static_cast<std::size_t>(i)];
          cosine += std::cos(angle) * dcosine.get((h * positions + t) * columns + j);
          sine += std::sin(angle) * dsine.get((h * positions + t) * columns + j);
        }
        EXPECT_NEAR(dcosine_weights.get((h * rows + i) * columns + j), cosine, 4e-6);
        EXPECT_NEAR(dsine_weights.get((h * rows + i) * columns + j), sine, 4e-6);
      }
    }
  }
}

TEST(PositionTable, ThreadsDoNotChangeABit) {
  Fope one(4, 301, 16, 16), two(4, 301, 16, 16);
  const int threads = omp_get_max_threads();
  const auto run = [](Fope& fope, int count) {
    omp_set_num_threads(count);
    fope.compute();
    position_table_backward_cpu(fope.frequency_tensor(), fope.table(), fope.cosine_weights, fope.sine_weights);
  };
  run(one, 1);
  run(two, 2);
  omp_set_num_threads(threads);
  EXPECT_EQ(one.cosine.bits(), two.cosine.bits());
  EXPECT_EQ(one.sine.bits(), two.sine.bits());
  EXPECT_EQ(one.cosine_weights.bits(), two.cosine_weights.bits());
  EXPECT_EQ(one.sine_weights.bits(), two.sine_weights.bits());
}

}  // namespace
}  // namespace longwave
