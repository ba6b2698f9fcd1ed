// Turns blocks of lanes x lanes 32-bit words in registers. For sources in this folder only.
#pragma once

#include "core/backend/cpu/simd/vector.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

// One halving of a transposition: rows `width` apart exchange the blocks of `width` lanes that lie off the diagonal.
template <int width> inline void swap_across(Vec (&rows)[lanes]) {
  IntVec upper{}, lower{};
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) {
    upper[i] = i & width ? lanes + i - width : i;
    lower[i] = i & width ? lanes + i : i + width;
  }
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) {
    if (i & width) continue;
    const Vec a = rows[i], b = rows[i + width];
    rows[i] = __builtin_shuffle(a, b, upper);
    rows[i + width] = __builtin_shuffle(a, b, lower);
  }
}

// rows[i][j] becomes rows[j][i], by halving (Eklundh, IEEE Trans. Computers C-21, 1972).
inline __attribute__((always_inline)) void transpose_block(Vec (&rows)[lanes]) {
  if constexpr (lanes > 8) swap_across<8>(rows);
  if constexpr (lanes > 4) swap_across<4>(rows);
  swap_across<2>(rows);
  swap_across<1>(rows);
}

}  // namespace
}  // namespace longwave::simd::LONGWAVE_ISA
