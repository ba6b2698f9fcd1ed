#include "core/position/position.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/error.h"

namespace longwave {
namespace {

// Frequencies are compared with the floor within rounding, so that an equal one is kept whatever the arithmetic made of it.
constexpr double equality_tolerance = 1e-12;

// RoPE: w_i = theta^(-2i / head_dim), i = 0 .. head_dim/2 - 1.
std::vector<double> rope_frequencies(double theta, std::int64_t head_dim) {
  std::vector<double> frequencies(static_cast<std::size_t>(head_dim / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
  }
  return frequencies;
}

// How many of the descending `frequencies` complete at least `cycles` cycles within the training length.
std::int64_t count_trained(const std::vector<double>& frequencies, double cycles, std::int64_t train_length) {
  const double floor = cycles * 2 * std::numbers::pi / static_cast<double>(train_length);
  const auto end = std::find_if(frequencies.begin(), frequencies.end(),
                                [&](double w) { return w < floor * (1 - equality_tolerance); });
  return end - frequencies.begin();
}

// The same first and last frequency with `extra` more on a geometric grid.
std::vector<double> densify(const std::vector<double>& frequencies, std::int64_t extra) {
  if (frequencies.size() < 2) {
    throw config_error("position.extra_frequencies: needs at least two frequencies above the floor, there is {}; lower "
                       "position.floor_cycles", frequencies.size());
  }
  std::vector<double> dense(frequencies.size() + static_cast<std::size_t>(extra));
  const double ratio = frequencies.back() / frequencies.front();
  for (std::size_t i = 0; i < dense.size(); ++i) {
    dense[i] = frequencies.front() * std::pow(ratio, static_cast<double>(i) / static_cast<double>(dense.size() - 1));
  }
  dense.back() = frequencies.back();
  return dense;
}

std::int64_t column_limit(const PositionConfig& config, std::int64_t head_dim) {
  switch (config.cap) {
    case PositionCap::quarter: return head_dim / 4;
    case PositionCap::none: return head_dim / 2;
    case PositionCap::pairs:
      if (config.cap_pairs < 1 || config.cap_pairs > head_dim / 2) {
        throw config_error("position.cap: {} pairs, must be 1 to head_dim/2 = {}", config.cap_pairs, head_dim / 2);
      }
      return config.cap_pairs;
  }
  LONGWAVE_CHECK(false, "position cap {}", static_cast<int>(config.cap));
}

void plan_fope(PositionPlan& plan, const PositionConfig& config, std::int64_t head_dim, std::int64_t kv_heads,
               std::int64_t train_length) {
  if (!config.series && config.learnable) {
    throw config_error("position.series: false leaves no coefficients to learn; set position.learnable: false");
  }
  const std::int64_t kept = count_trained(plan.frequencies, config.floor_cycles, train_length);
  if (kept == 0) {
    throw config_error("position.floor_cycles: {} leaves no frequency at a training length of {}; it must be at most {:.4g}",
                       config.floor_cycles, train_length, static_cast<double>(train_length) / (2 * std::numbers::pi));
  }
  plan.frequencies.resize(static_cast<std::size_t>(kept));
  if (config.extra_frequencies > 0) plan.frequencies = densify(plan.frequencies, config.extra_frequencies);

  const auto rows = static_cast<std::int64_t>(plan.frequencies.size());
  plan.columns = std::min(rows, column_limit(config, head_dim));
  if (plan.columns == 0) throw config_error("position.cap: quarter leaves no pair at model.head_dim {}", head_dim);
  plan.tail_sine = static_cast<float>(config.zero_phase);

  const double gain = config.series ? config.gain : 0;
  const bool diagonal = plan.columns == rows || config.identity == PositionIdentity::first;
  if (gain == 0 && diagonal && !config.learnable) {
    plan.frequencies.resize(static_cast<std::size_t>(plan.columns));  // column j is frequency j: no matrices needed
    return;
  }
  plan.has_coefficients = true;
  // Xavier's normal on a tensor [kv_heads, D, d]: fan out D d and fan in kv_heads d.
  plan.coefficient_std = gain * std::sqrt(2.0 / static_cast<double>(plan.columns * (rows + kv_heads)));
}

// A constant pair z adds |z|^2 times its product to the logits. Weight 2 is 1 + i, as FoPE's zero_phase 1 has it.
void plan_p_rope(PositionPlan& plan, const PositionConfig& config) {
  const auto kept = static_cast<std::int64_t>(config.fraction * static_cast<double>(plan.pairs) + 1e-9);
  if (kept < 1 || kept > plan.pairs) {
    throw config_error("position.fraction: {} of {} pairs leaves {} that rotate, must be 1 to {}", config.fraction, plan.pairs,
                       kept, plan.pairs);
  }
  plan.frequencies.resize(static_cast<std::size_t>(kept));
  plan.columns = kept;
  const double weight = config.constant_weight;
  plan.tail_cosine = static_cast<float>(weight < 1 ? std::sqrt(weight) : 1);
  plan.tail_sine = static_cast<float>(weight < 1 ? 0 : std::sqrt(weight - 1));
}

void plan_clipped_rope(PositionPlan& plan, const PositionConfig& config, std::int64_t train_length) {
  const std::int64_t untrained = plan.pairs - count_trained(plan.frequencies, config.floor_cycles, train_length);
  const std::int64_t clipped = config.clipped > 0 ? config.clipped : untrained;
  if (clipped > plan.pairs) {
    throw config_error("position.clipped: {} frequencies, there are head_dim/2 = {}", clipped, plan.pairs);
  }
  for (std::int64_t k = 1; k < clipped; ++k) {
    const double phase = std::numbers::pi * static_cast<double>(k) / static_cast<double>(clipped - 1);
    plan.frequencies[static_cast<std::size_t>(plan.pairs - clipped + k)] *= k == clipped - 1 ? 0 : 0.5 * (1 + std::cos(phase));
  }
}

void plan_yarn(PositionPlan& plan, const PositionConfig& config, std::int64_t train_length) {
  if (config.original_context < 1 || config.original_context >= train_length) {
    throw config_error("position.original_context: {}, must be the training length of the RoPE weights that yarn goes on from, "
                       "at least 1 and below model.context {}", config.original_context, train_length);
  }
  stretch_yarn(plan, static_cast<double>(train_length) / static_cast<double>(config.original_context), config.original_context);
}

void check_options(const PositionConfig& config, std::int64_t head_dim) {
  if (head_dim < 2 || head_dim % 2 != 0) throw config_error("model.head_dim: {}, must be even for rotated pairs", head_dim);
  if (!(config.theta > 1)) throw config_error("position.theta: {}, must be above 1", config.theta);
  if (!(config.gain >= 0)) throw config_error("position.gain: {}, must not be negative", config.gain);
  if (!(config.floor_cycles >= 0)) throw config_error("position.floor_cycles: {}, must not be negative", config.floor_cycles);
  if (config.extra_frequencies < 0) {
    throw config_error("position.extra_frequencies: {}, must not be negative", config.extra_frequencies);
  }
  if (!(config.constant_weight >= 0)) {
    throw config_error("position.constant_weight: {}, must not be negative", config.constant_weight);
  }
  if (config.clipped < 0) throw config_error("position.clipped: {}, must not be negative", config.clipped);
}

}  // namespace

PositionPlan plan_positions(const PositionConfig& config, std::int64_t head_dim, std::int64_t kv_heads,
                            std::int64_t train_length) {
  LONGWAVE_CHECK(kv_heads > 0 && train_length > 0, "{} KV heads, training length {}", kv_heads, train_length);
  PositionPlan plan;
  plan.pairs = head_dim / 2;
  if (config.kind == PositionKind::alibi || config.kind == PositionKind::nope) return plan;

  check_options(config, head_dim);
  plan.frequencies = rope_frequencies(config.theta, head_dim);
  plan.columns = plan.pairs;
  switch (config.kind) {
    case PositionKind::fope: plan_fope(plan, config, head_dim, kv_heads, train_length); break;
    case PositionKind::p_rope: plan_p_rope(plan, config); break;
    case PositionKind::clipped_rope: plan_clipped_rope(plan, config, train_length); break;
    case PositionKind::yarn: plan_yarn(plan, config, train_length); break;
    case PositionKind::rope:
    case PositionKind::alibi:
    case PositionKind::nope: break;
  }
  return plan;
}

std::vector<float> alibi_slopes(std::int64_t heads, std::int64_t first, std::int64_t count) {
  LONGWAVE_CHECK(0 <= first && count >= 0 && first + count <= heads, "heads {} + {} of {}", first, count, heads);
  std::vector<float> slopes(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const double r = static_cast<double>(first + i + 1);
    slopes[static_cast<std::size_t>(i)] = static_cast<float>(std::exp2(-8 * r / static_cast<double>(heads)));
  }
  return slopes;
}

const char* name_of(PositionKind kind) {
  switch (kind) {
    case PositionKind::fope: return "fope";
    case PositionKind::rope: return "rope";
    case PositionKind::alibi: return "alibi";
    case PositionKind::nope: return "nope";
    case PositionKind::p_rope: return "p-rope";
    case PositionKind::clipped_rope: return "clipped-rope";
    case PositionKind::yarn: return "yarn";
  }
  return "?";
}

}  // namespace longwave
