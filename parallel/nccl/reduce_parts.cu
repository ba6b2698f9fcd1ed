#include "parallel/nccl/reduce_parts.h"

#include "core/backend/cuda/device.h"
#include "core/backend/cuda/pack.h"
#include "core/backend/cuda/reduce.h"

namespace longwave {
namespace {

using namespace device;

constexpr int block_threads = 256;

// What an element is while it is added up.
LONGWAVE_DEVICE float widened(Bf16 value) { return to_float(value); }
template <class T> LONGWAVE_DEVICE T widened(T value) { return value; }
LONGWAVE_DEVICE void narrow(float value, Bf16& to) { to = to_bf16(value); }
template <class T> LONGWAVE_DEVICE void narrow(T value, T& to) { to = value; }

template <class T, class Join>
LONGWAVE_KERNEL(block_threads)
reduce_parts_kernel(const T* own, const T* others, std::int64_t stride, T* to, std::int64_t count, int rank, int size) {
  for (std::int64_t i = static_cast<std::int64_t>(block_x()) * threads() + thread(); i < count;
       i += static_cast<std::int64_t>(grid_x()) * threads()) {
    auto sum = widened(rank == 0 ? own[i] : others[i]);
    for (int other = 1; other < size; ++other) {
      const T value = other == rank ? own[i] : others[(other < rank ? other : other - 1) * stride + i];
      sum = Join::join(sum, widened(value));
    }
    narrow(sum, to[i]);
  }
}

template <class T>
void reduce(cudaStream_t stream, const void* own, const void* others, std::int64_t stride, void* to, std::int64_t count, int rank,
            int size, Reduction reduction) {
  const std::int64_t blocks = blocks_of(count, block_threads);
  launch("reduce_parts", reduction == Reduction::sum ? reduce_parts_kernel<T, Sum> : reduce_parts_kernel<T, Maximum>,
         {.x = blocks < 2048 ? blocks : 2048}, block_threads, 0, stream, static_cast<const T*>(own), static_cast<const T*>(others),
         stride, static_cast<T*>(to), count, rank, size);
}

}  // namespace

void reduce_parts(cudaStream_t stream, const void* own, const void* others, std::int64_t stride, void* to, std::int64_t count,
                  int rank, int size, Element element, Reduction reduction) {
  switch (element) {
    case Element::f32: return reduce<float>(stream, own, others, stride, to, count, rank, size, reduction);
    case Element::bf16: return reduce<Bf16>(stream, own, others, stride, to, count, rank, size, reduction);
    case Element::f64: return reduce<double>(stream, own, others, stride, to, count, rank, size, reduction);
    case Element::i32: return reduce<std::int32_t>(stream, own, others, stride, to, count, rank, size, reduction);
    case Element::i64: return reduce<std::int64_t>(stream, own, others, stride, to, count, rank, size, reduction);
    case Element::byte: return;
  }
}

}  // namespace longwave
