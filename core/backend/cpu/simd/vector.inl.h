// The widest fp32 vector of the instruction set this file is compiled for, in GCC's vector extensions: operators work
// element by element, and a comparison gives a mask that ?: selects with. For sources in this folder only; isa.h has the
// rules that keep one instruction set's code out of another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#include "core/backend/cpu/isa.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

#if defined(__AVX512F__)
inline constexpr int lanes = 16;
#elif defined(__AVX2__)
inline constexpr int lanes = 8;
#else
inline constexpr int lanes = 4;
#endif

typedef float Vec __attribute__((vector_size(4 * lanes)));
typedef std::int32_t IntVec __attribute__((vector_size(4 * lanes)));
typedef std::uint32_t WordVec __attribute__((vector_size(4 * lanes)));
typedef Bf16Bits HalfVec __attribute__((vector_size(2 * lanes)));
typedef float HalfFloatVec __attribute__((vector_size(2 * lanes)));  // half as many fp32
typedef double DoubleVec __attribute__((vector_size(4 * lanes)));    // half as many elements as Vec

inline Vec broadcast(float value) { return value - Vec{}; }

// Each element into the low half of a word.
inline WordVec to_words(HalfVec half) {
#if defined(__AVX512F__)
  __m256i packed;  // one instruction, where GCC's own conversion takes four
  __builtin_memcpy(&packed, &half, sizeof packed);
  return reinterpret_cast<WordVec>(_mm512_maskz_cvtepu16_epi32(0xffff, packed));
#else
  return __builtin_convertvector(half, WordVec);
#endif
}

inline Vec from_bf16(HalfVec half) {
  const WordVec words = to_words(half) << 16;
  Vec value;
  __builtin_memcpy(&value, &words, sizeof value);
  return value;
}

// Rounds to nearest even; NaN stays NaN. The AVX512-BF16 instruction also takes denormal numbers for zero.
inline HalfVec to_bf16(Vec value) {
#if defined(__AVX512BF16__)
  const __m256bh packed = _mm512_cvtneps_pbh(reinterpret_cast<__m512>(value));
  HalfVec half;
  __builtin_memcpy(&half, &packed, sizeof half);
  return half;
#else
  WordVec words;
  __builtin_memcpy(&words, &value, sizeof words);
  const WordVec rounded = (words + 0x7fffu + ((words >> 16) & 1u)) >> 16;
  const WordVec quiet = (words >> 16) | 0x40u;
  return __builtin_convertvector(value == value ? rounded : quiet, HalfVec);
#endif
}

// Loads and stores of `lanes` elements at any alignment, bf16 widened and rounded on the way.
inline Vec load(const float* from) {
  Vec value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
inline Vec load(const Bf16Bits* from) {
  HalfVec half;
  __builtin_memcpy(&half, from, sizeof half);
  return from_bf16(half);
}
inline void store(float* to, Vec value) { __builtin_memcpy(to, &value, sizeof value); }
inline void store(Bf16Bits* to, Vec value) {
  const HalfVec half = to_bf16(value);
  __builtin_memcpy(to, &half, sizeof half);
}

// The same for the first `count` < lanes elements; the others load as `fill`. With AVX-512 by mask: element by element, each
// would wait for the whole vector to be written to memory and read again.
#if defined(__AVX512F__)
inline __mmask16 first_lanes(std::int64_t count) { return static_cast<__mmask16>((1u << count) - 1u); }
inline Vec load_first(const float* from, std::int64_t count, float fill = 0) {
  return reinterpret_cast<Vec>(_mm512_mask_loadu_ps(reinterpret_cast<__m512>(broadcast(fill)), first_lanes(count), from));
}
inline Vec load_first(const Bf16Bits* from, std::int64_t count, float fill = 0) {
  HalfVec half;
  const __m256i loaded = _mm256_maskz_loadu_epi16(first_lanes(count), from);
  __builtin_memcpy(&half, &loaded, sizeof half);
  return reinterpret_cast<Vec>(_mm512_mask_mov_ps(reinterpret_cast<__m512>(broadcast(fill)), first_lanes(count),
                                                  reinterpret_cast<__m512>(from_bf16(half))));
}
inline void store_first(float* to, Vec value, std::int64_t count) {
  _mm512_mask_storeu_ps(to, first_lanes(count), reinterpret_cast<__m512>(value));
}
inline void store_first(Bf16Bits* to, Vec value, std::int64_t count) {
  const HalfVec half = to_bf16(value);
  __m256i stored;
  __builtin_memcpy(&stored, &half, sizeof stored);
  _mm256_mask_storeu_epi16(to, first_lanes(count), stored);
}
#else
inline Vec load_first(const float* from, std::int64_t count, float fill = 0) {
  Vec value = broadcast(fill);
  for (std::int64_t i = 0; i < count; ++i) value[i] = from[i];
  return value;
}
inline Vec load_first(const Bf16Bits* from, std::int64_t count, float fill = 0) {
  HalfVec half = to_bf16(broadcast(fill));
  for (std::int64_t i = 0; i < count; ++i) half[i] = from[i];
  return from_bf16(half);
}
inline void store_first(float* to, Vec value, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = value[i];
}
inline void store_first(Bf16Bits* to, Vec value, std::int64_t count) {
  const HalfVec half = to_bf16(value);
  for (std::int64_t i = 0; i < count; ++i) to[i] = half[i];
}
#endif

// Runs body(i, n) over [0, count) in steps of a vector, n being Whole, then Part for what is left; loads and stores take n,
// so that one body serves both and the whole vectors pay nothing for the rest.
struct Whole {};
struct Part {
  std::int64_t count;
};
template <class T> inline Vec load(const T* from, Whole, float = 0) { return load(from); }
template <class T> inline Vec load(const T* from, Part part, float fill = 0) { return load_first(from, part.count, fill); }
template <class T> inline void store(T* to, Vec value, Whole) { store(to, value); }
template <class T> inline void store(T* to, Vec value, Part part) { store_first(to, value, part.count); }

template <class Body>
[[gnu::always_inline]] inline void each_vector(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, Whole{});
  if (i < count) body(i, Part{count - i});
}

inline Vec square_root(Vec value) {
#if defined(__AVX512F__)
  return reinterpret_cast<Vec>(_mm512_maskz_sqrt_ps(0xffff, reinterpret_cast<__m512>(value)));
#elif defined(__AVX2__)
  return reinterpret_cast<Vec>(_mm256_sqrt_ps(reinterpret_cast<__m256>(value)));
#else
  return reinterpret_cast<Vec>(_mm_sqrt_ps(reinterpret_cast<__m128>(value)));
#endif
}

inline Vec maximum(Vec a, Vec b) { return a > b ? a : b; }
inline Vec minimum(Vec a, Vec b) { return a < b ? a : b; }

// Whether some lane differs.
inline bool differ(Vec a, Vec b) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), _CMP_NEQ_UQ) != 0;
#else
  const IntVec different = a != b;
  bool any = false;
  for (int i = 0; i < lanes; ++i) any |= different[i] != 0;
  return any;
#endif
}

// Horizontal reductions, as a tree: the same order on every call.
inline float sum(Vec value) {
  float part[lanes];
  __builtin_memcpy(part, &value, sizeof part);
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) part[i] += part[i + width];
  }
  return part[0];
}
inline float largest(Vec value) {
  float part[lanes];
  __builtin_memcpy(part, &value, sizeof part);
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) part[i] = part[i] > part[i + width] ? part[i] : part[i + width];
  }
  return part[0];
}

}  // namespace
}  // namespace longwave::simd::LONGWAVE_ISA
