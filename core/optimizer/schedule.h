// Learning rate as a pure function of the step.
#pragma once

#include <cstdint>

#include "core/optimizer/optimizer_config.h"

namespace longwave {

// Rate of update number `step` (0-based) out of `steps`. Warm-up is linear and its last step has the peak; cosine then falls to
// final_share * peak at the last step; warmup-stable-decay stays at the peak and falls linearly over the last decay_share.
double learning_rate_at(const ScheduleConfig& schedule, double peak, std::int64_t step, std::int64_t steps);

}  // namespace longwave
