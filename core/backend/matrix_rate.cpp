#include "core/backend/matrix_rate.h"

#include <algorithm>
#include <chrono>

namespace longwave {

double measure_matrix_rate(Backend& backend, DType compute, std::int64_t n) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds patience(100), limit(400);
  const std::size_t bytes = static_cast<std::size_t>(n * n) * size_of(compute);
  void* memory = backend.allocate(3 * bytes);
  const auto matrix = [&](std::size_t index) { return Tensor(static_cast<char*>(memory) + index * bytes, compute, {n, n}); };
  double best = 0;
  const Clock::time_point start = Clock::now();
  Clock::time_point improved = start;
  for (Clock::time_point begin = start; begin - improved < patience && begin - start < limit;) {
    backend.linear_forward(matrix(0), matrix(1), matrix(2));
    backend.synchronize();
    const Clock::time_point end = Clock::now();
    const double rate = 2.0 * static_cast<double>(n * n * n) / std::chrono::duration<double>(end - begin).count();
    if (rate > 1.01 * best) improved = end;
    best = std::max(best, rate);
    begin = end;
  }
  backend.release(memory);
  return best;
}

}  // namespace longwave
