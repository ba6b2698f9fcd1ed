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

#if defined(__AVX512F__)
// 2^x = 2^n p(r) for x up to 127, where x = n + r with n whole and 0 <= r < 1, and p is given. The forms with a mask, because
// GCC 12 warns of the others' undefined operand.
template <class Polynomial> inline Vec exp2_by(Vec x, const Polynomial& p) {
  constexpr int below = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  const Vec r = reinterpret_cast<Vec>(_mm512_maskz_reduce_ps(0xffff, reinterpret_cast<__m512>(x), below));
  return reinterpret_cast<Vec>(_mm512_maskz_scalef_ps(0xffff, reinterpret_cast<__m512>(p(r)), reinterpret_cast<__m512>(x)));
}
#endif

// 2^x for x <= 0 (a little above is fine), relative error 2e-7 down to 2^-126, and 0 far below; NaN of NaN; exactly 1 at 0, for a
// factor of 1 is applied at every tile whose maximum is not new. 2^r by the polynomial 1 + r q(r) of degree 5 with the smallest
// largest error over the range of r.
#if defined(__AVX512F__)
inline Vec exp2_negative(Vec x) {
  return exp2_by(x, [](Vec r) {
    Vec p = r * 1.86713017e-3f + 9.01702978e-3f;
    p = p * r + 5.57999127e-2f;
    p = p * r + 0.240164444f;
    p = p * r + 0.693151295f;
    return p * r + 1.0f;
  });
}
#else
// x = n + r with n whole and |r| <= 1/2.
inline Vec exp2_negative(Vec x) {
  const float round = 12582912.0f;  // 1.5 * 2^23: adding it leaves the whole part in the low bits
  const Vec clamped = x < -127.0f ? broadcast(-127.0f) : x;
  const Vec shifted = clamped + round;
  const Vec r = clamped - (shifted - round);
  Vec p = r * 1.32647251e-3f + 9.671513e-3f;
  p = p * r + 5.55073375e-2f;
  p = p * r + 0.240222421f;
  p = p * r + 0.693146978f;
  p = p * r + 1.0f;
  const IntVec exponent = (reinterpret_cast<IntVec>(shifted) << 23) + (127 << 23);  // n = -127 gives +0
  return p * reinterpret_cast<Vec>(exponent);
}
#endif

// 1 / (1 + e^-x), relative error below 1e-6 where that is above 1e-8; 0 below -87. With AVX-512 by the instructions for powers
// of 2, and an estimate of 14 bits with a step of Newton's for the division, which would keep its unit busy for as long as ten
// multiplications.
inline Vec sigmoid(Vec x) {
#if defined(__AVX512F__)
  const Vec most = broadcast(125.0f);
  Vec power = x * -1.44269504088896341f;
  power = power > most ? most : power;  // in this order NaN stays
  const Vec sum = 1.0f + exp2_negative(power);
  const Vec estimate = reinterpret_cast<Vec>(_mm512_maskz_rcp14_ps(0xffff, reinterpret_cast<__m512>(sum)));
  const Vec result = estimate + estimate * (1.0f - sum * estimate);
  return x < -87.0f ? Vec{} : result;
#else
  return 1.0f / (1.0f + exp(-x));
#endif
}

}  // namespace
}  // namespace longwave::simd::LONGWAVE_ISA
