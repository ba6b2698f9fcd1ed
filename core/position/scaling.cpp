// Position scaling: PI, NTK-aware and YaRN act on the frequencies a model was trained with. YaRN is also trained with.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/error.h"
#include "core/position/position.h"

namespace longwave {
namespace {

// Position interpolation, arXiv 2306.15595, Eq. 3: position t is seen as t / s.
void interpolate(PositionPlan& plan, double factor) {
  for (double& w : plan.frequencies) w /= factor;
}

// NTK-aware: theta becomes theta * s^(hd / (hd - 2)), so w_i is divided by s^(2i / (hd - 2)): the first stays, the last of
// the head_dim/2 is interpolated fully.
void scale_ntk(PositionPlan& plan, double factor, std::int64_t head_dim) {
  if (head_dim <= 2) throw config_error("position.scaling: ntk needs a model.head_dim above 2");
  for (std::size_t i = 0; i < plan.frequencies.size(); ++i) {
    plan.frequencies[i] *= std::pow(factor, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim - 2));
  }
}

}  // namespace

void stretch_yarn(PositionPlan& plan, double factor, std::int64_t train_length) {
  constexpr double alpha = 1, beta = 32;
  for (double& w : plan.frequencies) {
    const double cycles = static_cast<double>(train_length) * w / (2 * std::numbers::pi);
    const double kept = std::clamp((cycles - alpha) / (beta - alpha), 0.0, 1.0);
    w = (1 - kept) * w / factor + kept * w;
  }
  const double temperature = 0.1 * std::log(factor) + 1;
  plan.table_scale *= temperature;
  plan.tail_cosine *= static_cast<float>(temperature);
  plan.tail_sine *= static_cast<float>(temperature);
}

PositionPlan scale_positions(PositionPlan plan, const PositionConfig& config, std::int64_t head_dim,
                             std::int64_t train_length, std::int64_t length) {
  if (config.scaling == PositionScaling::none) return plan;
  if (config.kind != PositionKind::rope && config.kind != PositionKind::p_rope && config.kind != PositionKind::clipped_rope) {
    throw config_error("position.scaling: only for rope, p-rope and clipped-rope, position.kind is {}", name_of(config.kind));
  }
  if (!(config.scaling_factor >= 0)) {
    throw config_error("position.scaling_factor: {}, must not be negative", config.scaling_factor);
  }
  const double factor = config.scaling_factor > 0 ? config.scaling_factor
                                                  : static_cast<double>(length) / static_cast<double>(train_length);
  if (factor <= 1) return plan;
  switch (config.scaling) {
    case PositionScaling::none: break;
    case PositionScaling::interpolate: interpolate(plan, factor); break;
    case PositionScaling::ntk: scale_ntk(plan, factor, head_dim); break;
    case PositionScaling::yarn: stretch_yarn(plan, factor, train_length); break;
  }
  return plan;
}

}  // namespace longwave
