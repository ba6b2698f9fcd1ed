// A keyed permutation of [0, size) that is computed, not stored: where element `index` goes costs the same for ten elements
// and for 10^15. A Feistel network over pairs (left, right) below side = ceil(sqrt(size)), walked until it lands inside
// (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002); its round function is Philox.
#pragma once

#include <cstdint>

#include "core/base/random.h"

namespace longwave {

class Permutation {
 public:
  // `round` chooses among the permutations of one key: an epoch. size >= 1.
  Permutation(const RandomKey& key, std::int64_t size, std::uint64_t round);

  std::int64_t operator()(std::int64_t index) const;  // index in [0, size)

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  RandomKey key_;
  std::uint64_t size_, side_, round_;
};

}  // namespace longwave
