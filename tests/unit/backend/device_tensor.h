// A tensor in a backend's memory that a test fills from and reads back as fp64, for comparison with a reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/random.h"

namespace longwave {

using Values = std::vector<double>;

// The device whose tests these are: each executable that is built from them defines it.
std::unique_ptr<Backend> make_backend_under_test();

inline Backend& backend_under_test() {
  static const std::unique_ptr<Backend> backend = make_backend_under_test();
  return *backend;
}

class DeviceTensor {
 public:
  DeviceTensor(DType dtype, Shape shape) : backend_(backend_under_test()) {
    const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
    tensor_ = Tensor(backend_.allocate(bytes), dtype, shape);
  }
  // Standard normal numbers times `scale`, rounded to dtype.
  DeviceTensor(DType dtype, Shape shape, const std::string& name, double scale = 1) : DeviceTensor(dtype, shape) {
    const RandomKey key(7, "test", name);
    Values values(static_cast<std::size_t>(shape.count()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = scale * key.normal(i);
    write(values);
  }
  DeviceTensor(DType dtype, Shape shape, const Values& values) : DeviceTensor(dtype, shape) { write(values); }
  ~DeviceTensor() { backend_.release(tensor_.data); }
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;

  operator Tensor() const { return tensor_; }  // NOLINT: reads as the tensor it is

  void write(const Values& values) {
    ASSERT_EQ(static_cast<std::int64_t>(values.size()), tensor_.count());
    switch (tensor_.dtype) {
      case DType::f32: return write_as<float>(values);
      case DType::bf16: return write_as<bf16>(values);
      case DType::f64: return write_as<double>(values);
      case DType::i32: return write_as<std::int32_t>(values);
    }
  }

  Values read() const {
    switch (tensor_.dtype) {
      case DType::f32: return read_as<float>();
      case DType::bf16: return read_as<bf16>();
      case DType::f64: return read_as<double>();
      case DType::i32: return read_as<std::int32_t>();
    }
    return {};
  }

 private:
  template <class T> void write_as(const Values& values) {
    std::vector<T> host(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<T, bf16>) host[i] = bf16(static_cast<float>(values[i]));
      else host[i] = static_cast<T>(values[i]);
    }
    backend_.copy_from_host(tensor_, host.data());
  }
  template <class T> Values read_as() const {
    std::vector<T> host(static_cast<std::size_t>(tensor_.count()));
    backend_.copy_to_host(host.data(), tensor_);
    Values values;
    for (const T& value : host) {
      if constexpr (std::is_same_v<T, bf16>) values.push_back(static_cast<double>(static_cast<float>(value)));
      else values.push_back(static_cast<double>(value));
    }
    return values;
  }

  Backend& backend_;
  Tensor tensor_;
};

// Half a unit in the last place, relative, of a stored result.
inline double rounding_of(DType dtype) { return dtype == DType::bf16 ? std::ldexp(1.0, -8) : std::ldexp(1.0, -24); }

// |actual - expected| <= relative * |expected| + absolute, element by element; NaN is never close.
inline void expect_close(const Values& actual, const Values& expected, double relative, double absolute,
                         const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::abs(actual[i] - expected[i]);
    if (!(difference <= relative * std::abs(expected[i]) + absolute)) {
      ADD_FAILURE() << what << " [" << i << "]: " << actual[i] << ", not " << expected[i];
      return;
    }
  }
}

class EveryActivationType : public testing::TestWithParam<DType> {
 protected:
  Backend& backend() { return backend_under_test(); }
  DType dtype() const { return GetParam(); }
};

inline std::string dtype_test_name(const testing::TestParamInfo<DType>& type) { return name_of(type.param); }

#define INSTANTIATE_FOR_EVERY_ACTIVATION_TYPE(Suite) \
  INSTANTIATE_TEST_SUITE_P(Backend, Suite, testing::Values(DType::f32, DType::bf16), dtype_test_name)

}  // namespace longwave
