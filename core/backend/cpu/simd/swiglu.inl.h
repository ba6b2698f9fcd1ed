// SwiGLU of a vector, forward and backward. For sources in this folder only.
#pragma once

#include "core/backend/cpu/simd/math.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

// silu(gate) up, with silu(g) = g s and s = sigmoid(g).
inline Vec swiglu_of(Vec gate, Vec up) { return gate * sigmoid(gate) * up; }

// silu'(g) = s (1 + g (1 - s)).
struct SwiGluGradients {
  Vec gate, up;
};
inline SwiGluGradients swiglu_gradients(Vec dout, Vec gate, Vec up) {
  const Vec s = sigmoid(gate);
  return {dout * up * s * (1.0f + gate * (1.0f - s)), dout * gate * s};
}

}  // namespace
}  // namespace longwave::simd::LONGWAVE_ISA
