// Adds the seconds of its scope to a counter.
#pragma once

#include <chrono>

namespace longwave {

class StopWatch {
 public:
  explicit StopWatch(double& seconds) : seconds_(seconds) {}
  ~StopWatch() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace longwave
