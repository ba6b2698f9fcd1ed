#include "parallel/host_reduce.h"

#include <algorithm>
#include <type_traits>

#include "core/base/divide.h"
#include "core/base/error.h"

namespace longwave {
namespace {

// Elements summed at a time: the accumulator stays in the first-level cache while the sources stream past.
constexpr std::int64_t block_elements = 2048;
// Below this, waking a team of threads costs more than the additions.
constexpr std::int64_t parallel_elements = 1 << 17;

struct Add {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(a + b); }
};

struct Maximum {
  // A NaN on either side wins: `a != a` keeps one met earlier, the comparison fails for one that comes.
  template <class T> T operator()(T a, T b) const { return (a > b || a != a) ? a : b; }
};

template <class T, class Accumulator, class Operation>
void reduce_block(const void* const* sources, int num_sources, T* out, std::int64_t begin, std::int64_t count,
                  Operation operation) {
  Accumulator sum[block_elements];
  const T* first = static_cast<const T*>(sources[0]) + begin;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) sum[i] = static_cast<Accumulator>(first[i]);
  for (int s = 1; s < num_sources; ++s) {
    const T* source = static_cast<const T*>(sources[s]) + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) sum[i] = operation(sum[i], static_cast<Accumulator>(source[i]));
  }
  // Stored last, so that `out` may be any of the sources.
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) out[begin + i] = static_cast<T>(sum[i]);
}

template <class T, class Operation>
void reduce(const void* const* sources, int num_sources, void* out, std::int64_t count, Operation operation) {
  using Accumulator = std::conditional_t<std::is_same_v<T, bf16>, float, T>;
  const std::int64_t blocks = divide_up(count, block_elements);
#pragma omp parallel for schedule(static) if (count >= parallel_elements)
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t begin = block * block_elements;
    reduce_block<T, Accumulator>(sources, num_sources, static_cast<T*>(out), begin, std::min(block_elements, count - begin),
                                 operation);
  }
}

template <class T>
void reduce(const void* const* sources, int num_sources, void* out, std::int64_t count, Reduction reduction) {
  if (reduction == Reduction::sum) {
    reduce<T>(sources, num_sources, out, count, Add{});
  } else {
    reduce<T>(sources, num_sources, out, count, Maximum{});
  }
}

}  // namespace

void host_reduce(const void* const* sources, int num_sources, void* out, std::int64_t count, Element element,
                 Reduction reduction) {
  LONGWAVE_CHECK(num_sources >= 1 && count >= 0);
  switch (element) {
    case Element::f32: return reduce<float>(sources, num_sources, out, count, reduction);
    case Element::bf16: return reduce<bf16>(sources, num_sources, out, count, reduction);
    case Element::f64: return reduce<double>(sources, num_sources, out, count, reduction);
    case Element::i32: return reduce<std::int32_t>(sources, num_sources, out, count, reduction);
    case Element::i64: return reduce<std::int64_t>(sources, num_sources, out, count, reduction);
    case Element::byte: return reduce<std::uint8_t>(sources, num_sources, out, count, reduction);
  }
}

}  // namespace longwave
