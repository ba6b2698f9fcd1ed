// What a person sees while a job runs: on a terminal one line that is rewritten, with the time left; in a log plain lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace longwave {

class Progress {
 public:
  // Silent unless `enabled` (rank 0). Writes to standard output.
  explicit Progress(bool enabled);
  ~Progress() { end_line(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A step or a pass is done: `text`, with the share done and the time left for `total` units at the pace since `begin_phase`. On a terminal at
  // most ten times a second; in a log only when `log` is set.
  void begin_phase(std::int64_t done, std::int64_t total);
  void update(std::int64_t done, const std::string& text, bool log);
  // A line of its own, above the rewritten one.
  void say(const std::string& line);
  void end_line();

 private:
  using Clock = std::chrono::steady_clock;
  bool enabled_;
  bool terminal_;
  bool line_open_ = false;
  std::int64_t first_ = 0;
  std::int64_t total_ = 0;
  Clock::time_point start_;
  Clock::time_point last_;
};

}  // namespace longwave
