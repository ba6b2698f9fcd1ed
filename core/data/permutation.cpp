#include "core/data/permutation.h"

#include <cmath>

#include "core/base/error.h"

namespace longwave {
namespace {

constexpr std::uint64_t feistel_rounds = 8;

std::uint64_t square_root_rounded_up(std::uint64_t value) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(value)));
  while (root * root < value) ++root;  // the double may be off by one either way above 2^53
  while (root > 1 && (root - 1) * (root - 1) >= value) --root;
  return root;
}

}  // namespace

Permutation::Permutation(const RandomKey& key, std::int64_t size, std::uint64_t round)
    : key_(key), size_(static_cast<std::uint64_t>(size)), side_(square_root_rounded_up(size_)), round_(round) {
  LONGWAVE_CHECK(size >= 1 && size < std::int64_t{1} << 62, "a permutation of {}", size);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  std::uint64_t left = value % side_, right = value / side_;
  for (std::uint64_t i = 0; i < feistel_rounds; ++i) {
    const std::uint64_t mixed = (left + key_.below(side_, right, round_ * feistel_rounds + i)) % side_;
    left = right;
    right = mixed;
  }
  return right * side_ + left;
}

std::int64_t Permutation::operator()(std::int64_t index) const {
  // side^2 exceeds size by less than 2 side: nearly always one step.
  auto value = static_cast<std::uint64_t>(index);
  do value = encrypt(value);
  while (value >= size_);
  return static_cast<std::int64_t>(value);
}

}  // namespace longwave
