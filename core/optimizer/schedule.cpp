#include "core/optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longwave {

double learning_rate_at(const ScheduleConfig& schedule, double peak, std::int64_t step, std::int64_t steps) {
  if (step < schedule.warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup);
  const double low = schedule.final_share * peak;
  const auto share_done = [&](std::int64_t from) {
    const std::int64_t span = steps - 1 - from;
    return span <= 0 ? 1.0 : std::clamp(static_cast<double>(step - from) / static_cast<double>(span), 0.0, 1.0);
  };
  switch (schedule.kind) {
    case ScheduleKind::constant: return peak;
    case ScheduleKind::cosine: {
      const std::int64_t from = std::max<std::int64_t>(schedule.warmup - 1, 0);
      return low + (peak - low) * 0.5 * (1 + std::cos(std::numbers::pi * share_done(from)));
    }
    case ScheduleKind::warmup_stable_decay: {
      const auto decay = static_cast<std::int64_t>(std::llround(schedule.decay_share * static_cast<double>(steps)));
      const std::int64_t from = std::max(schedule.warmup, steps - 1 - decay);
      return step <= from ? peak : peak + (low - peak) * share_done(from);
    }
  }
  return peak;
}

}  // namespace longwave
