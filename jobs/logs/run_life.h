// Whether a run goes on, seen from outside, wherever its processes are.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace longwave {

class RunLife {
 public:
  explicit RunLife(std::string run_directory) : run_directory_(std::move(run_directory)) {}
  // True once nobody holds the run directory, its holder has stopped advancing its lock, or it has said in status.json how
  // the attempt ended. To be asked again and again: a holder that died is known by its silence.
  bool has_ended();

 private:
  std::string run_directory_;
  std::uint64_t beat_ = 0;
  std::chrono::steady_clock::time_point beaten_ = std::chrono::steady_clock::now();
};

}  // namespace longwave
