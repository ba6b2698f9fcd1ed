#include "core/backend/cpu/elementwise_kernels.h"
#include "core/backend/cpu/simd/math.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

void exp_all(const float* x, float* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(y + i, exp(load(x + i)));
  if (i < count) store_first(y + i, exp(load_first(x + i, count - i)), count - i);
}

template <class From, class To> void add(const From* x, To* to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(to + i, load(to + i) + load(x + i));
  const std::int64_t rest = count - i;
  if (rest > 0) store_first(to + i, load_first(to + i, rest) + load_first(x + i, rest), rest);
}

template <class From, class To> void cast(const From* x, To* to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(to + i, load(x + i));
  if (i < count) store_first(to + i, load_first(x + i, count - i), count - i);
}

template <class T> void swiglu(const T* gate, const T* up, T* out, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const Vec g = load(gate + i);
    store(out + i, g * sigmoid(g) * load(up + i));
  }
  const std::int64_t rest = count - i;
  if (rest > 0) {
    const Vec g = load_first(gate + i, rest);
    store_first(out + i, g * sigmoid(g) * load_first(up + i, rest), rest);
  }
}

struct GateUp {
  Vec gate, up;
};

// silu(g) = g s with s = sigmoid(g); silu'(g) = s (1 + g (1 - s)).
inline GateUp swiglu_gradient(Vec dout, Vec gate, Vec up) {
  const Vec s = sigmoid(gate);
  return {dout * up * s * (1.0f + gate * (1.0f - s)), dout * gate * s};
}

template <class T>
void swiglu_backward(const T* dout, const T* gate, const T* up, T* dgate, T* dup, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const GateUp gradient = swiglu_gradient(load(dout + i), load(gate + i), load(up + i));
    store(dgate + i, gradient.gate);
    store(dup + i, gradient.up);
  }
  const std::int64_t rest = count - i;
  if (rest > 0) {
    const GateUp gradient =
        swiglu_gradient(load_first(dout + i, rest), load_first(gate + i, rest), load_first(up + i, rest));
    store_first(dgate + i, gradient.gate, rest);
    store_first(dup + i, gradient.up, rest);
  }
}

}  // namespace

constinit const ElementwiseKernels elementwise_kernels = {
    .exp = exp_all,
    .add_f32 = add<float, float>,
    .add_bf16 = add<Bf16Bits, Bf16Bits>,
    .add_bf16_f32 = add<Bf16Bits, float>,
    .cast_f32_bf16 = cast<float, Bf16Bits>,
    .cast_bf16_f32 = cast<Bf16Bits, float>,
    .swiglu_f32 = swiglu<float>,
    .swiglu_bf16 = swiglu<Bf16Bits>,
    .swiglu_backward_f32 = swiglu_backward<float>,
    .swiglu_backward_bf16 = swiglu_backward<Bf16Bits>,
};

}  // namespace longwave::simd::LONGWAVE_ISA
