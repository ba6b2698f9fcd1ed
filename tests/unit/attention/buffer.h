// A tensor that owns its memory, filled and read as fp64 whatever its type.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/random.h"
#include "core/tensor/tensor.h"

namespace longwave::testing {

class Buffer {
 public:
  Buffer(DType dtype, Shape shape) : memory_(static_cast<std::size_t>(shape.count()) * size_of(dtype) / 4 + 16) {
    tensor_ = Tensor(memory_.data(), dtype, shape);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Tensor tensor() const { return tensor_; }
  operator Tensor() const { return tensor_; }

  Buffer& fill_normal(std::string_view name, double deviation = 1, double mean = 0) {
    const RandomKey key(11, "attention tests", name);
    for (std::int64_t i = 0; i < tensor_.count(); ++i) set(i, mean + deviation * key.normal(static_cast<std::uint64_t>(i)));
    return *this;
  }

  void set(std::int64_t i, double value) {
    if (tensor_.dtype == DType::bf16) {
      tensor_.as<bf16>()[i] = bf16(static_cast<float>(value));
    } else {
      tensor_.as<float>()[i] = static_cast<float>(value);
    }
  }

  double get(std::int64_t i) const {
    if (tensor_.dtype == DType::bf16) return static_cast<double>(static_cast<float>(tensor_.as<bf16>()[i]));
    return static_cast<double>(tensor_.as<float>()[i]);
  }

  std::vector<double> values() const {
    std::vector<double> result;
    for (std::int64_t i = 0; i < tensor_.count(); ++i) result.push_back(get(i));
    return result;
  }

  // All words of the memory, for comparing bit by bit.
  const std::vector<std::uint32_t>& bits() const { return memory_; }

 private:
  std::vector<std::uint32_t> memory_;
  Tensor tensor_;
};

struct RelativeError {
  double largest = INFINITY;  // largest difference over the root mean square of what was expected
  double rms = INFINITY;      // root mean square of the differences over the same; both infinite where a value is not a number
};

inline RelativeError relative_error(const std::vector<double>& actual, const std::vector<double>& expected) {
  if (actual.size() != expected.size()) return {};
  double largest = 0, square = 0, expected_square = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::fabs(actual[i] - expected[i]);
    if (!std::isfinite(difference)) return {};
    largest = std::max(largest, difference);
    square += difference * difference;
    expected_square += expected[i] * expected[i];
  }
  const double count = static_cast<double>(expected.size());
  const double rms = expected_square > 0 ? std::sqrt(expected_square / count) : 1;
  return {largest / rms, std::sqrt(square / count) / rms};
}

}  // namespace longwave::testing
