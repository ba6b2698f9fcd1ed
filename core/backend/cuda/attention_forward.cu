// Causal attention with an online softmax (Milakov and Gimelshein, arXiv 1805.02867) in tiles, as in FlashAttention-2 (Dao,
// arXiv 2307.08691): a block has 64 queries of one head and walks over the tiles of keys at or before them.
#include <cmath>

#include "core/backend/cuda/attention_tile.h"
#include "core/backend/cuda/kernels.h"

namespace longwave::cuda {
namespace {

using namespace device;

constexpr int tile_rows = 64;  // of queries and of keys
constexpr int block_threads = 128;
constexpr float log2_e = 1.4426950408889634f;
constexpr float ln_2 = 0.6931471805599453f;

// Maximum, and sum of 2^(logit - maximum), of the rows g and g + 8 of a warp's sixteen.
struct RunningSoftmax {
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};  // of this lane's columns
};

LONGWAVE_DEVICE float quad_max(float value) {
  value = fmaxf(value, shuffle_xor(value, 1));
  return fmaxf(value, shuffle_xor(value, 2));
}

LONGWAVE_DEVICE float quad_sum(float value) {
  value += shuffle_xor(value, 1);
  return value + shuffle_xor(value, 2);
}

// logits become probabilities relative to the new maximum; what was summed before is rescaled to it.
template <int D>
LONGWAVE_DEVICE void advance(RunningSoftmax& softmax, float (&logits)[tile_rows / 8][4], float (&out)[D / 8][4]) {
  LONGWAVE_UNROLL
  for (int half = 0; half < 2; ++half) {
    float maximum = softmax.maximum[half];
    LONGWAVE_UNROLL
    for (int column = 0; column < tile_rows / 8; ++column) {
      maximum = fmaxf(maximum, fmaxf(logits[column][half * 2], logits[column][half * 2 + 1]));
    }
    maximum = quad_max(maximum);
    const float rescale = fast_exp2(softmax.maximum[half] - maximum);
    softmax.maximum[half] = maximum;
    softmax.sum[half] *= rescale;
    LONGWAVE_UNROLL
    for (int column = 0; column < D / 8; ++column) {
      out[column][half * 2] *= rescale;
      out[column][half * 2 + 1] *= rescale;
    }
    LONGWAVE_UNROLL
    for (int column = 0; column < tile_rows / 8; ++column) {
      LONGWAVE_UNROLL
      for (int e = half * 2; e < half * 2 + 2; ++e) {
        logits[column][e] = fast_exp2(logits[column][e] - maximum);
        softmax.sum[half] += logits[column][e];
      }
    }
  }
}

// shared: queries, then two stages of keys and values
template <int D> LONGWAVE_KERNEL(block_threads) attention_forward_kernel(AttentionOperands o) {
  constexpr int tile_elements = tile_rows * D;
  auto* const queries = reinterpret_cast<Bf16*>(dynamic_shared());
  Bf16* const stages = queries + tile_elements;
  const int warp = thread() / 32, lane = thread() % 32;
  // The last queries have the most keys: they go first, and the short ones fill the end.
  const int last_tile = grid_x() - 1 - block_x();
  const std::int64_t head = block_y(), sequence = block_z();
  const std::int64_t kv_head = sequence * o.kv_heads + head / (o.heads / o.kv_heads);
  const Bf16* const q = o.q + (sequence * o.heads + head) * o.length * D;
  const Bf16* const k = o.k + kv_head * o.length * D;
  const Bf16* const v = o.v + kv_head * o.length * D;
  const std::int64_t first_query = static_cast<std::int64_t>(last_tile) * tile_rows;

  const auto fetch = [&](int tile) {
    Bf16* const keys = stages + tile % 2 * 2 * tile_elements;
    load_tile<D, tile_rows, block_threads>(keys, k, static_cast<std::int64_t>(tile) * tile_rows, o.length, D);
    load_tile<D, tile_rows, block_threads>(keys + tile_elements, v, static_cast<std::int64_t>(tile) * tile_rows, o.length, D);
  };
  load_tile<D, tile_rows, block_threads>(queries, q, first_query, o.length, D);
  fetch(0);
  copy_async_commit();

  const float scale = o.scale * log2_e;
  const float slope = o.slopes == nullptr ? 0 : o.slopes[head] * log2_e;
  const int row = warp * 16 + lane / 4;  // and row + 8
  RunningSoftmax softmax;
  float out[D / 8][4] = {};
  for (int tile = 0; tile <= last_tile; ++tile) {
    if (tile < last_tile) fetch(tile + 1);
    copy_async_commit();
    copy_async_wait<1>();
    barrier();
    Bf16* const keys = stages + tile % 2 * 2 * tile_elements;
    float logits[tile_rows / 8][4] = {};
    multiply_transposed<D, tile_rows>(logits, queries, warp * 16, keys);
    LONGWAVE_UNROLL
    for (int column = 0; column < tile_rows / 8; ++column) {
      LONGWAVE_UNROLL
      for (int e = 0; e < 4; ++e) {
        // query - key, by which ALiBi is paid and the causal mask drawn
        const int distance = (last_tile - tile) * tile_rows + row + e / 2 * 8 - (column * 8 + lane % 4 * 2 + e % 2);
        logits[column][e] = distance < 0 ? -INFINITY : logits[column][e] * scale - slope * static_cast<float>(distance);
      }
    }
    advance<D>(softmax, logits, out);
    multiply_weights<D, tile_rows>(out, logits, keys + tile_elements);
    barrier();  // before the next fetch overwrites this stage
  }

  float inverse[2];
  LONGWAVE_UNROLL
  for (int half = 0; half < 2; ++half) {
    const float sum = quad_sum(softmax.sum[half]);
    inverse[half] = 1.0f / sum;
    const std::int64_t query = first_query + row + half * 8;
    if (lane % 4 == 0 && query < o.length) {
      o.lse[(sequence * o.heads + head) * o.length + query] = softmax.maximum[half] * ln_2 + logf(sum);
    }
  }
  // out [B, T, H, D]
  store_rows<D>(out, inverse[0], inverse[1], queries, warp * 16, o.out + (sequence * o.length * o.heads + head) * D,
                first_query + warp * 16, o.length, o.heads * D);
}

}  // namespace

template <int D> void attention_forward(cudaStream_t stream, const AttentionOperands& o) {
  launch("attention_forward", attention_forward_kernel<D>, {.x = blocks_of(o.length, tile_rows), .y = o.heads, .z = o.batch},
         block_threads, 5 * tile_rows * D * sizeof(Bf16), stream, o);
}
template void attention_forward<64>(cudaStream_t, const AttentionOperands&);
template void attention_forward<128>(cudaStream_t, const AttentionOperands&);

}  // namespace longwave::cuda
