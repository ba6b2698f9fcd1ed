// What a model is told about positions: the `position:` section of a job file.
#pragma once

#include <cstdint>
#include <string>

namespace longwave {

enum class PositionKind { fope, rope, alibi, nope, p_rope, clipped_rope, yarn };
enum class PositionCap { quarter, none, pairs };        // at most head_dim/4 pairs, no limit, or `cap_pairs`
enum class PositionIdentity { first, step };            // where a wide coefficient matrix gets its identity entries
enum class PositionShare { layer, model };              // coefficients per layer, or one set for all layers
enum class PositionScaling { none, interpolate, ntk, yarn };  // at evaluation, for rope: PI, NTK-aware, YaRN

struct PositionConfig {
  PositionKind kind = PositionKind::fope;
  double theta = 10000;
  // FoPE (Hua et al., arXiv 2412.17739)
  double gain = 0.3;                 // sigma of the paper: scale of the coefficients' normal part
  double floor_cycles = 1;           // frequencies below floor_cycles * 2 pi / train length are dropped; 0 keeps all
  PositionCap cap = PositionCap::quarter;
  std::int64_t cap_pairs = 0;        // with PositionCap::pairs
  double zero_phase = 1;             // sine of the zero-frequency pairs: 1 as in the authors' code, 0 by Eq. 13
  PositionIdentity identity = PositionIdentity::first;
  PositionShare share = PositionShare::layer;
  bool learnable = false;            // coefficients trained instead of frozen
  bool normalize_columns = false;    // columns scaled to unit L1 norm, as in the paper's listing
  std::int64_t extra_frequencies = 0;  // that many more kept frequencies in the same range (a denser geometric grid)
  bool series = true;                // false: identity only, the paper's "w/o Fourier series"
  // p-rope: share of the frequencies, from the top, that rotate; the rest are constant with weight `constant_weight`.
  double fraction = 0.75;
  double constant_weight = 1;        // how often their logits count: 1 plain; 2 is FoPE's control with zero_phase 1
  // clipped-rope: the last `clipped` of the head_dim/2 frequencies are lowered by a cosine taper, the last one to zero.
  std::int64_t clipped = 0;          // 0: those below FoPE's floor
  // yarn: RoPE whose frequencies are stretched from this training length to the model's, in training as in evaluation. It goes
  // on from weights that RoPE was trained with at this length.
  std::int64_t original_context = 0;  // must be given
  // rope and its relatives, at evaluation only
  PositionScaling scaling = PositionScaling::none;
  double scaling_factor = 0;         // 0: evaluated length / train length
};

}  // namespace longwave
