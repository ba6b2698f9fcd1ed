// A tensor is a view: pointer, element type and row-major shape. It owns nothing; arenas and stores do. The pointer is
// host or device memory according to the backend that made it, so only that backend may look through it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>

#include "core/base/error.h"
#include "core/tensor/dtype.h"

namespace longwave {

struct Shape {
  static constexpr int max_rank = 4;
  std::array<std::int64_t, max_rank> extent{};
  int rank = 0;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    LONGWAVE_CHECK(extents.size() <= max_rank);
    for (std::int64_t value : extents) extent[static_cast<std::size_t>(rank++)] = value;
  }

  std::int64_t operator[](int axis) const { return extent[static_cast<std::size_t>(axis)]; }
  std::int64_t count() const {
    std::int64_t product = 1;
    for (int axis = 0; axis < rank; ++axis) product *= (*this)[axis];
    return product;
  }
  bool operator==(const Shape&) const = default;
};

struct Tensor {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  Tensor() = default;
  Tensor(void* pointer, DType type, Shape extents) : data(pointer), dtype(type), shape(extents) {}

  explicit operator bool() const { return data != nullptr; }
  std::int64_t count() const { return shape.count(); }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype); }

  // Typed access; the caller names the element type and a wrong one is a bug.
  template <class T> T* as() const {
    LONGWAVE_CHECK(data == nullptr || dtype == dtype_of<T>, "tensor is {}", name_of(dtype));
    return static_cast<T*>(data);
  }

  // The same memory under another shape of the same count.
  Tensor view(Shape extents) const {
    LONGWAVE_CHECK(extents.count() == count());
    return {data, dtype, extents};
  }

  // Rows [begin, end) along the first axis.
  Tensor rows(std::int64_t begin, std::int64_t end) const {
    LONGWAVE_CHECK(shape.rank >= 1 && 0 <= begin && begin <= end && end <= shape[0]);
    Tensor part = *this;
    const std::int64_t row = shape[0] == 0 ? 0 : count() / shape[0];
    part.shape.extent[0] = end - begin;
    if (data != nullptr) part.data = static_cast<char*>(data) + static_cast<std::size_t>(begin * row) * size_of(dtype);
    return part;
  }
};

}  // namespace longwave
