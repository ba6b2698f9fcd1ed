// Between the fused QKV projection and attention: split by head, normalise q and k (optional), transform positions. One
// pass over memory, arithmetic in fp32. head_dim is at most 256, and even.
#pragma once

#include "core/backend/backend.h"

namespace longwave {

// qkv [R, (H + 2G) D] -> q [B, H, T, D], k and v [B, G, T, D]. With norm: x <- x * rstd * gain over head_dim, and qk_rstd
// fp32 [B, H + G, T] is written. Then pair j of a head, x[j] and x[j + D/2], turns by the table's C and S at position t.
// An inactive table leaves q and k as they are.
void qkv_split_forward_cpu(Tensor qkv, AttentionShape shape, const PositionTable& table, const QkNorm& norm, Tensor q, Tensor k,
                           Tensor v, Tensor qk_rstd);

// dq, dk, dv -> dqkv. With norm: dquery_gain and dkey_gain (fp32 [D]) +=. With dtable (fp32, shaped like table): += dC, dS.
// Either needs the forward's qkv. Sums have one order for any number of threads.
void qkv_split_backward_cpu(Tensor dq, Tensor dk, Tensor dv, Tensor qkv, AttentionShape shape, const PositionTable& table,
                            const QkNorm& norm, Tensor qk_rstd, Tensor dqkv, Tensor dquery_gain, Tensor dkey_gain,
                            const PositionTable* dtable);

}  // namespace longwave
