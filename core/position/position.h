// Position encodings of the model: which frequencies, which coefficients, which ALiBi slopes. What is computed, with
// equations, is in core/README.md. FoPE is Hua et al., arXiv 2412.17739; RoPE Su et al., arXiv 2104.09864; ALiBi Press et
// al., arXiv 2108.12409; p-RoPE Barbero et al., arXiv 2410.06205; clipped RoPE arXiv 2602.05258; PI (position
// interpolation) arXiv 2306.15595; NTK-aware scaling and YaRN arXiv 2309.00071.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/position/position_config.h"

namespace longwave {

// The shape of a kind's tables, computed once from the configuration and the *training* length. A table is
//   C[h, t, j] = table_scale * sum_i cos(t frequencies[i]) Wcos[h][i, j],  S likewise with sine,  j < columns,
// with W the coefficients, or the identity where there are none; pairs from `columns` on are (tail_cosine, tail_sine).
struct PositionPlan {
  std::vector<double> frequencies;  // kept, highest first; size D (0: no table); without coefficients D == columns
  std::int64_t columns = 0;         // d: pairs that vary with the position
  std::int64_t pairs = 0;           // head_dim / 2
  bool has_coefficients = false;    // FoPE: matrices (D, d) per layer and KV head
  double coefficient_std = 0;       // of their normal part
  double table_scale = 1;           // multiplies C and S (YaRN: its attention temperature), and is in the tail already
  float tail_cosine = 1;            // pairs at or past `columns`
  float tail_sine = 0;

  bool active() const { return !frequencies.empty(); }  // false: q and k pass unchanged (alibi, nope)
};

// Throws config_error where the options contradict each other or leave no frequency.
// kv_heads is the model's, on every mesh: it enters the coefficients' scale.
PositionPlan plan_positions(const PositionConfig& config, std::int64_t head_dim, std::int64_t kv_heads,
                            std::int64_t train_length);

// The same plan with `scaling` applied for evaluation at `length` (PI, NTK, YaRN). The factor is config.scaling_factor, or
// length / train_length; at a factor of 1 or less nothing changes. Works on the plan's own frequencies, so that those read
// from a checkpoint are kept. Throws config_error for kinds other than rope, p-rope and clipped-rope.
PositionPlan scale_positions(PositionPlan plan, const PositionConfig& config, std::int64_t head_dim,
                             std::int64_t train_length, std::int64_t length);

// YaRN, arXiv 2309.00071, Eq. 18-22 with alpha 1 and beta 32: frequencies that complete 32 cycles within `train_length` stay,
// those that complete at most one are divided by `factor`. Logits are multiplied by (0.1 ln factor + 1)^2: q and k by its root
// each. For PositionKind::yarn plan_positions has applied it.
void stretch_yarn(PositionPlan& plan, double factor, std::int64_t train_length);

// Coefficients of KV heads first .. first + count of the model, row-major [count, D, d]; `kind` is "cosine" or "sine".
// Element (h, i, j) depends on (seed, layer, kind, h, i, j) only; h is the head's index in the whole model. With
// share: model, pass layer 0.
std::vector<float> draw_coefficients(const PositionPlan& plan, const PositionConfig& config, std::uint64_t seed,
                                     std::int64_t layer, const std::string& kind, std::int64_t first_head,
                                     std::int64_t head_count);

// Slope of heads first .. first + count out of `heads`: 2^(-8 r / heads), r = 1..heads.
std::vector<float> alibi_slopes(std::int64_t heads, std::int64_t first, std::int64_t count);

// As a job file spells it: "fope", "rope", "alibi", "nope", "p-rope", "clipped-rope", "yarn".
const char* name_of(PositionKind kind);

}  // namespace longwave
