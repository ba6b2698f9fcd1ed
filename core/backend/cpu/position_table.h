// The tables of the position transform. Angles t w and their sines and cosines are fp64, because an fp32 angle is wrong by
// 2e-3 at position 65535; sums over frequencies are fp64 too, and only the result is rounded to fp32.
#pragma once

#include "core/backend/backend.h"

namespace longwave {

// C[h, t, j] = scale * sum_i cos(t w_i) Wcos[h][i, j], S with sine and Wsin (Hua et al., arXiv 2412.17739).
// frequencies fp64 [D']; coefficients fp32 [table heads, D', columns], or null data for identity (columns == D').
void position_table_cpu(Tensor frequencies, Tensor cosine_coefficients, Tensor sine_coefficients, double scale,
                        PositionTable table);

// dcosine_coefficients[h][i, j] += sum_t cos(t w_i) dC[h, t, j], summed in fp64 in the order of t; the sine's likewise.
void position_table_backward_cpu(Tensor frequencies, const PositionTable& dtable, Tensor dcosine_coefficients,
                                 Tensor dsine_coefficients);

}  // namespace longwave
