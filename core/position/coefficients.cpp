// FoPE's coefficient matrices: identity plus a normal part, as counters draw it.
#include <cmath>

#include "core/base/divide.h"
#include "core/base/error.h"
#include "core/base/random.h"
#include "core/position/position.h"

namespace longwave {
namespace {

// W = identity + normal(0, std) for one head; this adds the identity.
void add_identity(const PositionPlan& plan, PositionIdentity identity, float* matrix) {
  const auto rows = static_cast<std::int64_t>(plan.frequencies.size());
  const std::int64_t stride = identity == PositionIdentity::first ? 1 : divide_up(rows, plan.columns);
  for (std::int64_t j = 0; j < plan.columns && j * stride < rows; ++j) matrix[j * stride * plan.columns + j] += 1;
}

void normalize_columns(const PositionPlan& plan, float* matrix) {
  const auto rows = static_cast<std::int64_t>(plan.frequencies.size());
  for (std::int64_t j = 0; j < plan.columns; ++j) {
    double sum = 0;
    for (std::int64_t i = 0; i < rows; ++i) sum += std::abs(matrix[i * plan.columns + j]);
    if (sum == 0) continue;  // identity: step without a series leaves columns empty
    for (std::int64_t i = 0; i < rows; ++i) {
      float& element = matrix[i * plan.columns + j];
      element = static_cast<float>(element / sum);
    }
  }
}

}  // namespace

std::vector<float> draw_coefficients(const PositionPlan& plan, const PositionConfig& config, std::uint64_t seed,
                                     std::int64_t layer, const std::string& kind, std::int64_t first_head,
                                     std::int64_t head_count) {
  LONGWAVE_CHECK(plan.has_coefficients && first_head >= 0 && head_count >= 0);
  LONGWAVE_CHECK(kind == "cosine" || kind == "sine", "coefficients of \"{}\"", kind);
  const RandomKey key(seed, "fope", fmt::format("layer.{}.{}", layer, kind));
  const std::int64_t size = static_cast<std::int64_t>(plan.frequencies.size()) * plan.columns;
  std::vector<float> coefficients(static_cast<std::size_t>(head_count * size));
  for (std::int64_t head = 0; head < head_count; ++head) {
    float* matrix = coefficients.data() + head * size;
    const auto origin = static_cast<std::uint64_t>((first_head + head) * size);  // index in the whole model's tensor
    for (std::int64_t e = 0; e < size; ++e) {
      matrix[e] = static_cast<float>(plan.coefficient_std * key.normal(origin + static_cast<std::uint64_t>(e)));
    }
    add_identity(plan, config.identity, matrix);
    if (config.normalize_columns) normalize_columns(plan, matrix);
  }
  return coefficients;
}

}  // namespace longwave
