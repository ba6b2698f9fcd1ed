#include "core/backend/cpu/position_table.h"

#include <cmath>
#include <vector>

#include "core/base/error.h"

namespace longwave {
namespace {

// One thread's fp64 numbers; allocated at the first call of a size.
double* thread_numbers(std::int64_t count) {
  thread_local std::vector<double> numbers;
  if (static_cast<std::int64_t>(numbers.size()) < count) numbers.resize(static_cast<std::size_t>(count));
  return numbers.data();
}

// to[j] = scale * sum_i waves[i] weights[i, j]
void combine(const double* waves, const float* weights, std::int64_t rows, std::int64_t columns, double scale, double* sums,
             float* to) {
  for (std::int64_t j = 0; j < columns; ++j) sums[j] = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const double wave = waves[i];
    const float* const row = weights + i * columns;
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += wave * static_cast<double>(row[j]);
  }
  for (std::int64_t j = 0; j < columns; ++j) to[j] = static_cast<float>(scale * sums[j]);
}

}  // namespace

void position_table_cpu(Tensor frequencies, Tensor cosine_coefficients, Tensor sine_coefficients, double scale,
                        PositionTable table) {
  LONGWAVE_CHECK(table.active() && table.sine.shape == table.cosine.shape);
  const std::int64_t rows = frequencies.count();
  const std::int64_t heads = table.heads(), positions = table.positions(), columns = table.columns();
  const bool identity = !cosine_coefficients;
  LONGWAVE_CHECK(identity == !sine_coefficients);
  LONGWAVE_CHECK(identity ? columns == rows
                          : cosine_coefficients.count() == heads * rows * columns &&
                                sine_coefficients.count() == heads * rows * columns,
                 "{} frequencies do not fit a table of {} heads and {} columns", rows, heads, columns);
  const double* const frequency = frequencies.as<double>();
  const float* const cosine_weights = cosine_coefficients.as<float>();
  const float* const sine_weights = sine_coefficients.as<float>();
  float* const cosine = table.cosine.as<float>();
  float* const sine = table.sine.as<float>();

#pragma omp parallel for schedule(static)
  for (std::int64_t t = 0; t < positions; ++t) {
    double* const cosines = thread_numbers(2 * rows + columns);
    double* const sines = cosines + rows;
    double* const sums = sines + rows;
    for (std::int64_t i = 0; i < rows; ++i) {
      const double angle = static_cast<double>(t) * frequency[i];
      cosines[i] = std::cos(angle);
      sines[i] = std::sin(angle);
    }
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t to = (h * positions + t) * columns;
      if (identity) {
        for (std::int64_t j = 0; j < columns; ++j) {
          cosine[to + j] = static_cast<float>(scale * cosines[j]);
          sine[to + j] = static_cast<float>(scale * sines[j]);
        }
      } else {
        combine(cosines, cosine_weights + h * rows * columns, rows, columns, scale, sums, cosine + to);
        combine(sines, sine_weights + h * rows * columns, rows, columns, scale, sums, sine + to);
      }
    }
  }
}

void position_table_backward_cpu(Tensor frequencies, const PositionTable& dtable, Tensor dcosine_coefficients,
                                 Tensor dsine_coefficients) {
  LONGWAVE_CHECK(dtable.active() && dtable.sine.shape == dtable.cosine.shape);
  const std::int64_t rows = frequencies.count();
  const std::int64_t heads = dtable.heads(), positions = dtable.positions(), columns = dtable.columns();
  LONGWAVE_CHECK(dcosine_coefficients.count() == heads * rows * columns);
  LONGWAVE_CHECK(dsine_coefficients.count() == heads * rows * columns);
  const double* const frequency = frequencies.as<double>();
  const float* const dcosine = dtable.cosine.as<float>();
  const float* const dsine = dtable.sine.as<float>();
  float* const dcosine_weights = dcosine_coefficients.as<float>();
  float* const dsine_weights = dsine_coefficients.as<float>();

  // A thread owns a frequency: its row of every head's matrix, summed over all positions.
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < rows; ++i) {
    double* const cosine_sums = thread_numbers(2 * heads * columns);
    double* const sine_sums = cosine_sums + heads * columns;
    for (std::int64_t n = 0; n < 2 * heads * columns; ++n) cosine_sums[n] = 0;
    for (std::int64_t t = 0; t < positions; ++t) {
      const double angle = static_cast<double>(t) * frequency[i];
      const double cosine = std::cos(angle), sine = std::sin(angle);
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t from = (h * positions + t) * columns;
        for (std::int64_t j = 0; j < columns; ++j) {
          cosine_sums[h * columns + j] += cosine * static_cast<double>(dcosine[from + j]);
          sine_sums[h * columns + j] += sine * static_cast<double>(dsine[from + j]);
        }
      }
    }
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const std::int64_t to = (h * rows + i) * columns + j;
        dcosine_weights[to] += static_cast<float>(cosine_sums[h * columns + j]);
        dsine_weights[to] += static_cast<float>(sine_sums[h * columns + j]);
      }
    }
  }
}

}  // namespace longwave
