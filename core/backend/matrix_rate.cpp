#include "core/backend/matrix_rate.h"

#include <algorithm>
#include <chrono>

namespace longwave {

double measure_matrix_rate(Backend& backend, DType compute, std::int64_t n) {
  using Clock = std::chrono::steady_clock;
  const std::size_t bytes = static_cast<std::size_t>(n * n) * size_of(compute);
  void* memory = backend.allocate(3 * bytes);
  const auto matrix = [&](std::size_t index) { return Tensor(static_cast<char*>(memory) + index * bytes, compute, {n, n}); };
  double best = 0;
  const Clock::time_point start = Clock::now();
  while (std::chrono::duration<double>(Clock::now() - start).count() < 0.4) {
    const Clock::time_point begin = Clock::now();
    backend.linear_forward(matrix(0), matrix(1), matrix(2));
    backend.synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, 2.0 * static_cast<double>(n * n * n) / seconds);
  }
  backend.release(memory);
  return best;
}

}  // namespace longwave
