// Causal attention on the CPU: blocked with an online softmax, so that no S x S matrix exists (Dao et al., arXiv
// 2205.14135 and 2307.08691). Logits are scale * q.k - slope * (i - j) for keys j <= i; softmax and sums are fp32; query
// head h reads KV head h / (H/G). Inputs are fp32 or bf16, all of one type; head_dim is at most 256, and even.
//
// Work is split over (sequence, head, block of 64 queries) by OpenMP. Every sum has one order, whatever the number of
// threads, so the same inputs give the same bits.
#pragma once

#include <cstdint>

#include "core/backend/backend.h"

namespace longwave {

// q [B, H, T, D], k and v [B, G, T, D] -> out [B T, H D], lse fp32 [B, H, T].
void attention_forward_cpu(Tensor q, Tensor k, Tensor v, AttentionShape shape, AttentionOptions options, Tensor out, Tensor lse);

// dout [B T, H D] -> dq [B, H, T, D], dk and dv [B, G, T, D]; probabilities are computed again from lse.
void attention_backward_cpu(Tensor q, Tensor k, Tensor v, Tensor out, Tensor dout, Tensor lse, AttentionShape shape,
                            AttentionOptions options, Tensor dq, Tensor dk, Tensor dv, Tensor workspace);

// fp32 elements: 2 P B G T D, T and D rounded up to a block; P partial sums (1 to 8) of dk and dv keep about 16 threads
// busy when sequences and KV heads are few.
std::int64_t attention_backward_workspace_cpu(AttentionShape shape);

}  // namespace longwave
