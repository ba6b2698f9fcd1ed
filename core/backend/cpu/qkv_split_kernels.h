// The arithmetic of the QKV split for a span of tokens, per instruction set; qkv_split.cpp spreads spans over threads.
#pragma once

#include "core/backend/cpu/isa.h"

namespace longwave {

inline constexpr std::int64_t qkv_max_head_dim = 256;

// Operands of a call, in either direction. Memory of T is fp32 or bf16.
struct QkvOperands {
  std::int64_t length = 0;    // T
  std::int64_t heads = 0;     // H
  std::int64_t kv_heads = 0;  // G
  std::int64_t head_dim = 0;  // D

  const void* qkv = nullptr;  // [B T, (H + 2G) D]; in the backward null unless norm or dtable need it
  void* dqkv = nullptr;       // the same shape; backward only
  void* q = nullptr;          // [B, H, T, D]: q, k, v in the forward, dq, dk, dv in the backward
  void* k = nullptr;          // [B, G, T, D]
  void* v = nullptr;          // [B, G, T, D]

  // The output is larger than the caches, its heads whole lines of 64 bytes: written past them, its lines are not fetched first.
  bool stream = false;

  bool rotates = false;
  const float* cosine = nullptr;  // [table_heads, positions, columns]
  const float* sine = nullptr;
  std::int64_t table_heads = 0;  // 1 or G
  std::int64_t positions = 0;
  std::int64_t columns = 0;
  float tail_cosine = 1;
  float tail_sine = 0;
  float* dcosine = nullptr;  // [table_heads, positions, columns] or null
  float* dsine = nullptr;

  const float* query_gain = nullptr;  // [D], or null without norm
  const float* key_gain = nullptr;
  float epsilon = 0;
  float* rstd = nullptr;  // [B, H + G, T]
};

// Positions [begin, end) of a sequence, all heads.
struct QkvSpan {
  std::int64_t sequence = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Sums of a thread's tokens, [D] each.
struct QkvGainSums {
  float* query = nullptr;
  float* key = nullptr;
};

struct QkvSplitKernels {
  void (*forward_f32)(const QkvOperands&, QkvSpan);
  void (*forward_bf16)(const QkvOperands&, QkvSpan);
  void (*backward_f32)(const QkvOperands&, QkvSpan, QkvGainSums);
  void (*backward_bf16)(const QkvOperands&, QkvSpan, QkvGainSums);
};

LONGWAVE_DECLARE_KERNELS(QkvSplitKernels, qkv_split_kernels)

}  // namespace longwave
