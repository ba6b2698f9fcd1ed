// Position encodings of the model: which frequencies, which coefficients, which ALiBi slopes. What FoPE computes is in
// core/README.md (Hua et al., arXiv 2412.17739); RoPE is Su et al., arXiv 2104.09864; ALiBi is Press et al., arXiv
// 2108.12409; PI is arXiv 2306.15595; NTK-aware and YaRN are arXiv 2309.00071.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/position/position_config.h"

namespace longwave {

// The shape of a kind's tables, computed once from the configuration and the *training* length.
struct PositionPlan {
  std::vector<double> frequencies;  // kept, highest first; size D (may be 0: no table)
  std::int64_t columns = 0;         // d: pairs that vary with the position
  std::int64_t pairs = 0;           // head_dim / 2
  bool has_coefficients = false;    // FoPE: matrices (D, d) per layer and KV head
  double coefficient_std = 0;
  double table_scale = 1;           // multiplies C and S (YaRN: its attention temperature)
  std::vector<double> column_weights;  // clipped-rope and the like: weight of each column (empty: all 1)
  float tail_cosine = 1;            // pairs at or past `columns`
  float tail_sine = 0;

  bool active() const { return !frequencies.empty() || tail_sine != 0 || tail_cosine != 1; }
};

// Throws config_error where the options contradict each other or leave no frequency.
// kv_heads is the model's, on every mesh: it enters the coefficients' scale.
PositionPlan plan_positions(const PositionConfig& config, std::int64_t head_dim, std::int64_t kv_heads,
                            std::int64_t train_length);

// The same plan with `scaling` applied for evaluation at `length` (PI, NTK, YaRN), for kinds that allow it.
PositionPlan scale_positions(PositionPlan plan, const PositionConfig& config, std::int64_t head_dim,
                             std::int64_t train_length, std::int64_t length);

// One KV head's coefficients, row-major [D, d], for heads first .. first + count of the model; `kind` is "cosine" or
// "sine". Element (h, i, j) depends on (seed, layer, kind, h, i, j) only. With share: model, pass layer 0.
std::vector<float> draw_coefficients(const PositionPlan& plan, const PositionConfig& config, std::uint64_t seed,
                                     std::int64_t layer, const std::string& kind, std::int64_t first_head,
                                     std::int64_t head_count);

// Slope of heads first .. first + count out of `heads`: 2^(-8 r / heads), r = 1..heads.
std::vector<float> alibi_slopes(std::int64_t heads, std::int64_t first, std::int64_t count);

const char* name_of(PositionKind kind);

}  // namespace longwave
