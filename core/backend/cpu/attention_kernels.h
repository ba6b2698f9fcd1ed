// The arithmetic of attention for one block of 64 queries of one head, per instruction set; attention.cpp spreads blocks
// over threads.
#pragma once

#include "core/backend/cpu/isa.h"

namespace longwave {

inline constexpr std::int64_t attention_block = 64;  // queries, and keys, of a tile
inline constexpr std::int64_t attention_max_head_dim = 256;
// head_dim is padded to whole vectors of any instruction set in scratch memory and in the partial sums.
inline constexpr std::int64_t attention_lane_multiple = 16;

// Operands of a call. Memory of T is fp32 or bf16; rows are tokens.
struct AttentionOperands {
  const void* q = nullptr;     // [B, H, T, D]
  const void* k = nullptr;     // [B, G, T, D]
  const void* v = nullptr;     // [B, G, T, D]
  void* out = nullptr;         // [B, T, H, D]; read by the backward
  float* lse = nullptr;        // [B, H, T]; read by the backward
  const void* dout = nullptr;  // [B, T, H, D]
  void* dq = nullptr;          // [B, H, T, D]
  std::int64_t length = 0;     // T
  std::int64_t heads = 0;      // H
  std::int64_t kv_heads = 0;   // G
  std::int64_t head_dim = 0;   // D
  float scale = 1;
  const float* slopes = nullptr;  // [H] or null
};

struct AttentionBlock {
  std::int64_t sequence = 0;
  std::int64_t head = 0;
  std::int64_t first_query = 0;  // a multiple of attention_block
};

// Partial sums of dk / scale and dv of one KV head of one sequence: fp32 [T padded to blocks, D padded].
struct AttentionPartialSums {
  float* dk = nullptr;
  float* dv = nullptr;
};

// scratch: attention_scratch_floats, aligned to 64 bytes, contents arbitrary but initialised.
inline constexpr std::int64_t attention_scratch_floats =
    attention_block * (8 * attention_max_head_dim + 4 * attention_block + 8);

struct AttentionForwardKernels {
  void (*block_f32)(const AttentionOperands&, AttentionBlock, float* scratch);
  void (*block_bf16)(const AttentionOperands&, AttentionBlock, float* scratch);
};

struct AttentionBackwardKernels {
  // Writes dq of the block and adds to the sums of its KV head.
  void (*block_f32)(const AttentionOperands&, AttentionBlock, AttentionPartialSums, float* scratch);
  void (*block_bf16)(const AttentionOperands&, AttentionBlock, AttentionPartialSums, float* scratch);
  // to[i] = factor * (sum over parts of from[part * part_stride + i]), in the order of the parts
  void (*sum_parts_f32)(const float* from, std::int64_t parts, std::int64_t part_stride, float factor, float* to,
                        std::int64_t count);
  void (*sum_parts_bf16)(const float* from, std::int64_t parts, std::int64_t part_stride, float factor, Bf16Bits* to,
                         std::int64_t count);
};

// bf16 on AMX tiles, for a head_dim that is a multiple of 32: neighbouring blocks of one head at once, which share what is packed
// of a tile of keys. As the block kernels otherwise.
inline constexpr int attention_most_query_blocks = 4;
struct AmxAttentionKernels {
  void (*forward)(const AttentionOperands&, AttentionBlock first, int blocks, float* scratch);
  void (*backward)(const AttentionOperands&, AttentionBlock first, int blocks, AttentionPartialSums, float* scratch);
};

namespace simd::amx_bf16 { extern const AmxAttentionKernels amx_attention_kernels; }

LONGWAVE_DECLARE_KERNELS(AttentionForwardKernels, attention_forward_kernels)
LONGWAVE_DECLARE_KERNELS(AttentionBackwardKernels, attention_backward_kernels)

}  // namespace longwave
