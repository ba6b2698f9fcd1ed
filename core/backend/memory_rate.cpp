#include "core/backend/memory_rate.h"

#include <algorithm>
#include <chrono>

namespace longwave {

double measure_memory_rate(Backend& backend) {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t count = (std::int64_t{128} << 20) / sizeof(float);
  constexpr std::size_t bytes = count * sizeof(float);
  void* memory = backend.allocate(2 * bytes);
  const Tensor from(memory, DType::f32, {count});
  const Tensor to(static_cast<char*>(memory) + bytes, DType::f32, {count});
  double best = 0;
  const Clock::time_point start = Clock::now();
  while (std::chrono::duration<double>(Clock::now() - start).count() < 0.2) {
    const Clock::time_point begin = Clock::now();
    backend.copy(from, to);
    backend.synchronize();
    best = std::max(best, 2.0 * static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - begin).count());
  }
  backend.release(memory);
  return best;
}

}  // namespace longwave
