// How the CPU operations share work between threads: in ranges whose bounds follow from the problem's size alone, so what
// is summed with what, and every bit of the result, is the same for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/divide.h"
#include "core/tensor/tensor.h"

namespace longwave {

// body(begin, end) over [0, count) in ranges of `grain`, the last one shorter.
template <class Body>
void parallel_ranges(std::int64_t count, std::int64_t grain, const Body& body) {
  const std::int64_t ranges = divide_up(count, grain);
#pragma omp parallel for schedule(static) if (ranges > 1)
  for (std::int64_t range = 0; range < ranges; ++range) body(range * grain, std::min(count, (range + 1) * grain));
}

// Elements that are worth a range of their own: large against the cost of a parallel region, small against a cache.
inline constexpr std::int64_t elements_a_range = 16384;

// A larger output is gone from a core's caches before it is read: written past them, its lines are not fetched first.
inline constexpr std::size_t cached_output_bytes = 2 << 20;

// Whether its memory begins with a cache line, as what is written past the caches must.
inline bool on_lines(const Tensor& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.data) % 64 == 0; }

// body(row) over all rows of `width` elements.
template <class Body>
void parallel_rows(std::int64_t rows, std::int64_t width, const Body& body) {
  parallel_ranges(rows, std::max<std::int64_t>(1, elements_a_range / std::max<std::int64_t>(1, width)),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t row = begin; row < end; ++row) body(row);
                  });
}

// Where a kernel table keeps the variant for this activation type.
inline std::size_t kernel_of(DType dtype) {
  LONGWAVE_CHECK(dtype == DType::f32 || dtype == DType::bf16, "activations are fp32 or bf16, not {}", name_of(dtype));
  return static_cast<std::size_t>(dtype);
}

// Element `index` of a tensor's memory, as the kernels take it.
inline void* element(const Tensor& tensor, std::int64_t index) {
  return static_cast<char*>(tensor.data) + static_cast<std::size_t>(index) * size_of(tensor.dtype);
}

}  // namespace longwave
