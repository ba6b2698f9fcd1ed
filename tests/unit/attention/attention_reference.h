// Attention the obvious way, in fp64 with the whole matrix of logits: what the blocked kernels are held against.
#pragma once

#include <cstdint>
#include <vector>

#include "core/backend/backend.h"

namespace longwave::testing {

struct AttentionReference {
  std::vector<double> out;  // [B, T, H, D]
  std::vector<double> lse;  // [B, H, T]
  std::vector<double> dq;   // [B, H, T, D]
  std::vector<double> dk;   // [B, G, T, D]
  std::vector<double> dv;   // [B, G, T, D]
};

// q [B, H, T, D], k and v [B, G, T, D], dout [B, T, H, D]; slopes [H] or empty.
AttentionReference attention_reference(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                                       const std::vector<double>& dout, AttentionShape shape, double scale,
                                       const std::vector<float>& slopes);

}  // namespace longwave::testing
