// Elementary functions on Vec. For sources in this folder only.
#pragma once

#include "core/backend/cpu/simd/vector.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

// e^x, relative error below 1.5e-7 wherever the result is a normal number; 0 below -104, infinity above 88.73, NaN of NaN.
// x = n ln 2 + r with |r| <= ln 2 / 2 and n whole; ln 2 is split so that n * high is exact; e^r by a polynomial of degree
// 6 fitted to the relative error at Chebyshev nodes (2.3e-8 with these coefficients), then 2^n.
inline Vec exp(Vec x) {
  const Vec low = broadcast(-104.0f), high = broadcast(89.0f);
  x = x < low ? low : x;  // in this order NaN stays
  x = x > high ? high : x;
  const float round = 12582912.0f;  // 1.5 * 2^23: adding it leaves the whole part in the low bits
  const Vec shifted = x * 1.44269504088896341f + round;
  const Vec n = shifted - round;
  Vec r = x - n * 0.693145751953125f;
  r = r - n * 1.42860677e-6f;
  Vec p = r * 1.38643349e-3f + 8.37483257e-3f;
  p = p * r + 4.16676551e-2f;
  p = p * r + 0.166664198f;
  p = p * r + 0.49999997f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
#if defined(__AVX512F__)
  return reinterpret_cast<Vec>(_mm512_maskz_scalef_ps(0xffff, reinterpret_cast<__m512>(p), reinterpret_cast<__m512>(n)));
#else
  // 2^n in two halves, so that results at both ends of the range come out right.
  const IntVec whole = __builtin_convertvector(n, IntVec);
  const IntVec half = whole >> 1;
  const IntVec first = (half + 127) << 23, second = (whole - half + 127) << 23;
  return p * reinterpret_cast<Vec>(first) * reinterpret_cast<Vec>(second);
#endif
}

// 1 / (1 + e^-x)
inline Vec sigmoid(Vec x) { return 1.0f / (1.0f + exp(-x)); }

}  // namespace
}  // namespace longwave::simd::LONGWAVE_ISA
