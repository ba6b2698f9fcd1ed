// Rows of bf16 and fp32 as packs of N elements: N is 8 (16 bytes of bf16) where rows allow it, else 1.
#pragma once

#include "core/backend/cuda/device.h"

namespace longwave::device {

template <int N> LONGWAVE_DEVICE void load_pack(const Bf16* from, float (&to)[N]) {
  if constexpr (N == 8) {
    const Words4 words = load16(from);
    LONGWAVE_UNROLL
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = float_of_bits(words.word[i] << 16);
      to[2 * i + 1] = float_of_bits(words.word[i] & 0xffff0000u);
    }
  } else {
    to[0] = to_float(*from);
  }
}

template <int N> LONGWAVE_DEVICE void store_pack(Bf16* to, const float (&from)[N]) {
  if constexpr (N == 8) {
    Words4 words;
    LONGWAVE_UNROLL
    for (int i = 0; i < 4; ++i) words.word[i] = pack_bf16(from[2 * i], from[2 * i + 1]);
    store16(to, words);
  } else {
    *to = to_bf16(from[0]);
  }
}

template <int N> LONGWAVE_DEVICE void load_pack(const float* from, float (&to)[N]) {
  if constexpr (N % 4 == 0) {
    LONGWAVE_UNROLL
    for (int part = 0; part < N / 4; ++part) {
      const Words4 words = load16(from + part * 4);
      LONGWAVE_UNROLL
      for (int i = 0; i < 4; ++i) to[part * 4 + i] = float_of_bits(words.word[i]);
    }
  } else {
    to[0] = *from;
  }
}

template <int N> LONGWAVE_DEVICE void store_pack(float* to, const float (&from)[N]) {
  if constexpr (N % 4 == 0) {
    LONGWAVE_UNROLL
    for (int part = 0; part < N / 4; ++part) {
      Words4 words;
      LONGWAVE_UNROLL
      for (int i = 0; i < 4; ++i) words.word[i] = bits_of(from[part * 4 + i]);
      store16(to + part * 4, words);
    }
  } else {
    *to = from[0];
  }
}

}  // namespace longwave::device

namespace longwave {

// Whether rows of `width` elements that start at these addresses can be read 16 bytes at a time.
template <class... Pointers> bool packs_of_8(std::int64_t width, Pointers... pointers) {
  return width % 8 == 0 && ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

inline std::int64_t blocks_of(std::int64_t items, std::int64_t items_a_block) { return (items + items_a_block - 1) / items_a_block; }

}  // namespace longwave
