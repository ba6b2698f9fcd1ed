#include <cmath>

#include "core/backend/cuda/kernels.h"
#include "core/backend/cuda/pack.h"

namespace longwave::cuda {
namespace {

using namespace device;

constexpr int block_threads = 128;
constexpr int tile = 128;  // frequencies of a position, or positions of a frequency, in shared memory at a time

LONGWAVE_DEVICE int smaller(std::int64_t a, int b) { return a < b ? static_cast<int>(a) : b; }

LONGWAVE_DEVICE void wave(double angle, double& cosine, double& sine) {
  double s, c;
  sincos(angle, &s, &c);
  cosine = c;
  sine = s;
}

// A block has a position. Angles and sums are fp64: fp32 angles are wrong by 2e-3 at position 65535.
LONGWAVE_KERNEL(block_threads)
position_table_kernel(const double* frequencies, const float* cosine_weights, const float* sine_weights, double scale,
                      float* cosine, float* sine, TableShape shape) {
  LONGWAVE_SHARED(double, cosines, tile);
  LONGWAVE_SHARED(double, sines, tile);
  const std::int64_t t = block_x();
  const std::int64_t outputs = shape.heads * shape.columns;
  const bool identity = cosine_weights == nullptr;
  // All threads go round together, since they share the tile.
  for (std::int64_t begin = 0; begin < outputs; begin += threads()) {
    const std::int64_t output = begin + thread();
    const bool active = output < outputs;
    const std::int64_t head = active ? output / shape.columns : 0, column = active ? output % shape.columns : 0;
    double cosine_sum = 0, sine_sum = 0;
    for (std::int64_t from = 0; from < shape.frequencies; from += tile) {
      const int count = smaller(shape.frequencies - from, tile);
      barrier();
      for (int i = thread(); i < count; i += threads()) {
        wave(static_cast<double>(t) * frequencies[from + i], cosines[i], sines[i]);
      }
      barrier();
      if (!active) continue;
      if (identity) {
        if (from <= column && column < from + count) {
          cosine_sum = cosines[column - from];
          sine_sum = sines[column - from];
        }
        continue;
      }
      for (int i = 0; i < count; ++i) {
        const std::int64_t weight = (head * shape.frequencies + from + i) * shape.columns + column;
        cosine_sum += cosines[i] * static_cast<double>(cosine_weights[weight]);
        sine_sum += sines[i] * static_cast<double>(sine_weights[weight]);
      }
    }
    if (!active) continue;
    const std::int64_t to = (head * shape.positions + t) * shape.columns + column;
    cosine[to] = static_cast<float>(scale * cosine_sum);
    sine[to] = static_cast<float>(scale * sine_sum);
  }
}

// A block has a frequency of a head: one row of its two matrices of coefficients.
LONGWAVE_KERNEL(block_threads)
position_table_backward_kernel(const double* frequencies, const float* dcosine, const float* dsine, float* dcosine_weights,
                               float* dsine_weights, TableShape shape) {
  LONGWAVE_SHARED(double, cosines, tile);
  LONGWAVE_SHARED(double, sines, tile);
  const std::int64_t i = block_x(), head = block_y();
  for (std::int64_t begin = 0; begin < shape.columns; begin += threads()) {
    const std::int64_t column = begin + thread();
    double cosine_sum = 0, sine_sum = 0;
    for (std::int64_t from = 0; from < shape.positions; from += tile) {
      const int count = smaller(shape.positions - from, tile);
      barrier();
      for (int t = thread(); t < count; t += threads()) {
        wave(static_cast<double>(from + t) * frequencies[i], cosines[t], sines[t]);
      }
      barrier();
      if (column >= shape.columns) continue;
      for (int t = 0; t < count; ++t) {
        const std::int64_t at = (head * shape.positions + from + t) * shape.columns + column;
        cosine_sum += cosines[t] * static_cast<double>(dcosine[at]);
        sine_sum += sines[t] * static_cast<double>(dsine[at]);
      }
    }
    if (column >= shape.columns) continue;
    const std::int64_t to = (head * shape.frequencies + i) * shape.columns + column;
    dcosine_weights[to] += static_cast<float>(cosine_sum);
    dsine_weights[to] += static_cast<float>(sine_sum);
  }
}

}  // namespace

void position_table(cudaStream_t stream, const double* frequencies, const float* cosine_coefficients,
                    const float* sine_coefficients, double scale, float* cosine, float* sine, TableShape shape) {
  launch("position_table", position_table_kernel, {.x = shape.positions}, block_threads, 0, stream, frequencies,
         cosine_coefficients, sine_coefficients, scale, cosine, sine, shape);
}

void position_table_backward(cudaStream_t stream, const double* frequencies, const float* dcosine, const float* dsine,
                             float* dcosine_coefficients, float* dsine_coefficients, TableShape shape) {
  launch("position_table_backward", position_table_backward_kernel, {.x = shape.frequencies, .y = shape.heads}, block_threads, 0,
         stream, frequencies, dcosine, dsine, dcosine_coefficients, dsine_coefficients, shape);
}

}  // namespace longwave::cuda
