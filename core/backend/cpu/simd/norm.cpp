#include "core/backend/cpu/norm_kernels.h"
#include "core/backend/cpu/simd/vector.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

// y = x * rstd * gain, given the sum of squares of x.
template <class T>
inline float scale_row(const T* x, const T* gain, Vec squares, float epsilon, T* y, std::int64_t width) {
  const float rstd = 1.0f / __builtin_sqrtf(sum(squares) / static_cast<float>(width) + epsilon);
  each_vector(width, [&](std::int64_t i, auto n) { store(y + i, load(x + i, n) * rstd * load(gain + i, n), n); });
  return rstd;
}

template <class T>
float forward(const void* x_data, const void* gain, float epsilon, void* y, std::int64_t width) {
  const T* x = static_cast<const T*>(x_data);
  Vec squares = {};
  each_vector(width, [&](std::int64_t i, auto n) {
    const Vec value = load(x + i, n);
    squares += value * value;
  });
  return scale_row(x, static_cast<const T*>(gain), squares, epsilon, static_cast<T*>(y), width);
}

template <class T>
float add_forward(void* residual_data, const void* branch_data, const void* gain, float epsilon, void* y, std::int64_t width) {
  T* residual = static_cast<T*>(residual_data);
  const T* branch = static_cast<const T*>(branch_data);
  Vec squares = {};
  each_vector(width, [&](std::int64_t i, auto n) {
    store(residual + i, load(residual + i, n) + load(branch + i, n), n);
    const Vec value = load(residual + i, n);  // as rounded, since the backward sees only that
    squares += value * value;
  });
  return scale_row(residual, static_cast<const T*>(gain), squares, epsilon, static_cast<T*>(y), width);
}

// With z = x rstd and h = gain dy: dx = rstd (h - z mean(h z)), dgain = dy z.
template <class T>
void backward(const void* dy_data, const void* x_data, const void* gain_data, float rstd, void* dx_data, float* dgain,
              std::int64_t width) {
  const T* dy = static_cast<const T*>(dy_data);
  const T* x = static_cast<const T*>(x_data);
  const T* gain = static_cast<const T*>(gain_data);
  T* dx = static_cast<T*>(dx_data);
  Vec products = {};
  each_vector(width, [&](std::int64_t i, auto n) {
    const Vec dy_z = load(dy + i, n) * (load(x + i, n) * rstd);
    products += dy_z * load(gain + i, n);
    store(dgain + i, load(dgain + i, n) + dy_z, n);
  });
  const float mean = sum(products) / static_cast<float>(width);
  each_vector(width, [&](std::int64_t i, auto n) {
    const Vec change = load(gain + i, n) * load(dy + i, n) - load(x + i, n) * rstd * mean;
    store(dx + i, load(dx + i, n) + change * rstd, n);
  });
}

}  // namespace

constinit const NormKernels norm_kernels = {
    .forward = {forward<float>, forward<Bf16Bits>},
    .add_forward = {add_forward<float>, add_forward<Bf16Bits>},
    .backward = {backward<float>, backward<Bf16Bits>},
};

}  // namespace longwave::simd::LONGWAVE_ISA
