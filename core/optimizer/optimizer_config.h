// The `optimizer:` and `schedule:` sections of a job file.
#pragma once

#include <cstdint>

namespace longwave {

struct OptimizerConfig {
  double learning_rate = 6e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;  // of the global gradient norm; 0 is off
};

enum class ScheduleKind { cosine, constant, warmup_stable_decay };

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::cosine;
  std::int64_t warmup = 0;  // steps
  double final_share = 0.1;  // last learning rate / peak
  double decay_share = 0.2;  // warmup-stable-decay: last share of the steps that decays
};

}  // namespace longwave
