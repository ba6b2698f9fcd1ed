#include "core/backend/cpu/loss_kernels.h"
#include "core/backend/cpu/simd/math.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

constexpr float minus_infinity = -__builtin_inff();

template <class T> std::int64_t find_first(const T* logits, std::int64_t columns, float wanted) {
  for (std::int64_t begin = 0; begin < columns; begin += lanes) {
    const std::int64_t count = columns - begin < lanes ? columns - begin : lanes;
    const Vec value = count == lanes ? load(logits + begin) : load_first(logits + begin, count, minus_infinity);
    const IntVec equal = value == wanted;
    for (std::int64_t i = 0; i < count; ++i) {
      if (equal[i] != 0) return begin + i;
    }
  }
  return 0;  // a row of NaN
}

// A NaN may be lost from the maximum, never from the sum.
template <class T> LogitStatistics statistics(const void* data, std::int64_t columns, bool want_argmax) {
  const T* logits = static_cast<const T*>(data);
  LogitStatistics result = {minus_infinity, 0, 0};
  if (columns <= 0) return result;
  Vec top = broadcast(minus_infinity);
  each_vector(columns, [&](std::int64_t i, auto n) { top = maximum(top, load(logits + i, n, minus_infinity)); });
  result.maximum = largest(top);
  Vec total = {};
  each_vector(columns, [&](std::int64_t i, auto n) { total += exp(load(logits + i, n, minus_infinity) - result.maximum); });
  result.sum_exp = sum(total);
  if (want_argmax) result.argmax = find_first(logits, columns, result.maximum);
  return result;
}

template <class T> void backward(void* data, std::int64_t columns, float top, float sum_exp, float weight) {
  T* logits = static_cast<T*>(data);
  const float scale = weight / sum_exp;
  each_vector(columns, [&](std::int64_t i, auto n) { store(logits + i, exp(load(logits + i, n) - top) * scale, n); });
}

}  // namespace

constinit const LossKernels loss_kernels = {
    .statistics = {statistics<float>, statistics<Bf16Bits>},
    .backward = {backward<float>, backward<Bf16Bits>},
};

}  // namespace longwave::simd::LONGWAVE_ISA
