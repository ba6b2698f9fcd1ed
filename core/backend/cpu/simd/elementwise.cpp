#include "core/backend/cpu/elementwise_kernels.h"
#include "core/backend/cpu/simd/math.inl.h"
#include "core/backend/cpu/simd/swiglu.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

void exp_all(const float* x, float* y, std::int64_t count) {
  each_vector(count, [&](std::int64_t i, auto n) { store(y + i, exp(load(x + i, n)), n); });
}

template <class From, class To> void add_typed(const From* x, To* to, std::int64_t count) {
  each_vector(count, [&](std::int64_t i, auto n) { store(to + i, load(to + i, n) + load(x + i, n), n); });
}

template <class T> void add(const void* x, void* to, std::int64_t count) {
  add_typed(static_cast<const T*>(x), static_cast<T*>(to), count);
}

template <class T> void accumulate(const void* x, float* to, std::int64_t count) {
  add_typed(static_cast<const T*>(x), to, count);
}

template <class From, class To> void cast(const From* x, To* to, std::int64_t count) {
  each_vector(count, [&](std::int64_t i, auto n) { store(to + i, load(x + i, n), n); });
}

template <class T> void swiglu(const void* gate_data, const void* up_data, void* out_data, std::int64_t count) {
  const T* gate = static_cast<const T*>(gate_data);
  const T* up = static_cast<const T*>(up_data);
  T* out = static_cast<T*>(out_data);
  each_vector(count, [&](std::int64_t i, auto n) {
    store(out + i, swiglu_of(load(gate + i, n), load(up + i, n)), n);
  });
}

template <class T>
void swiglu_backward(const void* dout_data, const void* gate_data, const void* up_data, void* dgate, void* dup,
                     std::int64_t count) {
  const T* dout = static_cast<const T*>(dout_data);
  const T* gate = static_cast<const T*>(gate_data);
  const T* up = static_cast<const T*>(up_data);
  each_vector(count, [&](std::int64_t i, auto n) {
    const SwiGluGradients gradients = swiglu_gradients(load(dout + i, n), load(gate + i, n), load(up + i, n));
    store(static_cast<T*>(dgate) + i, gradients.gate, n);
    store(static_cast<T*>(dup) + i, gradients.up, n);
  });
}

}  // namespace

constinit const ElementwiseKernels elementwise_kernels = {
    .exp = exp_all,
    .add = {add<float>, add<Bf16Bits>},
    .accumulate = {accumulate<float>, accumulate<Bf16Bits>},
    .to_bf16 = cast<float, Bf16Bits>,
    .from_bf16 = cast<Bf16Bits, float>,
    .swiglu = {swiglu<float>, swiglu<Bf16Bits>},
    .swiglu_backward = {swiglu_backward<float>, swiglu_backward<Bf16Bits>},
};

}  // namespace longwave::simd::LONGWAVE_ISA
