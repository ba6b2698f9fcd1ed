#include "core/backend/cpu/optimizer_kernels.h"
#include "core/backend/cpu/simd/vector.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

template <class T>
void adamw(float* master, const float* gradient, float* moment1, float* moment2, void* value_data, const AdamWFactors& factors,
           std::int64_t count) {
  T* value = static_cast<T*>(value_data);
  const AdamWFactors f = factors;  // a copy, which the stores below cannot alias
  each_vector(count, [&](std::int64_t i, auto n) {
    const Vec g = load(gradient + i, n) * f.gradient_scale;
    const Vec m = load(moment1 + i, n) * f.beta1 + g * (1.0f - f.beta1);
    const Vec v = load(moment2 + i, n) * f.beta2 + g * g * (1.0f - f.beta2);
    const Vec before = load(master + i, n);
    const Vec after = before - before * f.decay - m * f.step_size / (square_root(v * f.inverse_correction2) + f.epsilon);
    store(moment1 + i, m, n);
    store(moment2 + i, v, n);
    store(master + i, after, n);
    store(value + i, after, n);
  });
}

inline DoubleVec widen(const float* from) {
  HalfFloatVec half;
  __builtin_memcpy(&half, from, sizeof half);
  return __builtin_convertvector(half, DoubleVec);
}

double sum_of_squares(const float* x, std::int64_t count) {
  DoubleVec low = {}, high = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const DoubleVec a = widen(x + i), b = widen(x + i + lanes / 2);
    low += a * a;
    high += b * b;
  }
  low += high;
  double total = 0;
  for (int lane = 0; lane < lanes / 2; ++lane) total += low[lane];
  for (; i < count; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total;
}

}  // namespace

constinit const OptimizerKernels optimizer_kernels = {
    .adamw = {adamw<float>, adamw<Bf16Bits>},
    .sum_of_squares = sum_of_squares,
};

}  // namespace longwave::simd::LONGWAVE_ISA
