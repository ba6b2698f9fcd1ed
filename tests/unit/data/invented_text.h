// Text out of invented words: enough of a language for a small tokenizer to train on.
#pragma once

#include <cmath>
#include <string>

#include "core/base/random.h"

namespace longwave {

inline std::string invented_text(std::size_t words, std::uint64_t seed = 7) {
  static const char* const onset[] = {"b", "d", "f", "gr", "k", "l", "m", "st", "p", "tr", "s", "w"};
  static const char* const rhyme[] = {"a", "e", "ing", "o", "ar", "en", "ish", "ou", "ed"};
  const RandomKey key(seed, "test-text");
  std::string text;
  for (std::size_t i = 0; i < words; ++i) {
    // A word is drawn by rank, roughly as words of a language are, and spelled from its rank.
    auto rank = static_cast<std::uint64_t>(std::exp(key.uniform(i) * 8));
    for (; rank > 0; rank /= 108) {
      text += onset[rank % 12];
      text += rhyme[rank / 12 % 9];
    }
    text += i % 17 == 16 ? ".\n" : " ";
  }
  return text;
}

}  // namespace longwave
