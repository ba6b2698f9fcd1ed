// Which steps are too bad to apply: loss or gradient not finite, or a gradient norm far above what it has been. It sees
// reduced values only, so every rank judges alike; its state is part of a checkpoint.
#pragma once

#include <cstdint>
#include <string>

#include "parallel/data_parallel.h"

namespace longwave {

struct GuardState {
  std::int64_t accepted = 0;      // steps judged good so far
  double norm_average = 0;        // running average of their gradient norms
  std::int64_t bad_in_a_row = 0;  // steps judged bad since the last good one
};

class StepGuard {
 public:
  // So many good steps make an average that a spike can be told from.
  static constexpr std::int64_t warmup = 100;
  // So many bad steps in a row are not an accident of the data; going on would only burn the allocation.
  static constexpr std::int64_t most_in_a_row = 10;

  // A gradient norm above `spike` times the average is bad; 0: never.
  explicit StepGuard(double spike) : spike_(spike) {}

  // "" when the step is good, else what is wrong with it.
  std::string judge(const StepResult& result);
  bool hopeless() const { return state_.bad_in_a_row >= most_in_a_row; }

  const GuardState& state() const { return state_; }
  void resume(const GuardState& state) { state_ = state; }

 private:
  double spike_;
  GuardState state_;
};

}  // namespace longwave
