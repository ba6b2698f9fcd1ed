// Backward of causal attention without a matrix of logits in memory and without atomics: dk and dv by blocks that have keys
// and walk over queries, dq by blocks that have queries and walk over keys; each recomputes the probabilities from lse.
//   p = exp(logit - lse), dv = p^T dout, ds = p (dout v^T - delta), dk = scale ds^T q, dq = scale ds k, delta = dout . out
#include <cmath>

#include "core/backend/cuda/attention_tile.h"
#include "core/backend/cuda/kernels.h"
#include "core/backend/cuda/reduce.h"

namespace longwave::cuda {
namespace {

using namespace device;

constexpr int block_threads = 128;
constexpr int own_rows = 64;  // of the block: keys or queries, sixteen a warp
constexpr float log2_e = 1.4426950408889634f;

// Rows of the other side that a block takes at a time: what the registers hold.
template <int D> constexpr int other_rows = D == 64 ? 64 : 32;

// A warp has a row of [B, T, H, D].
template <int D> LONGWAVE_KERNEL(block_threads) attention_delta_kernel(AttentionOperands o) {
  const std::int64_t row = static_cast<std::int64_t>(block_x()) * (block_threads / 32) + thread() / 32;
  if (row >= o.batch * o.length * o.heads) return;
  const int lane = thread() % 32;
  float product = 0;
  if (lane < D / 8) {
    float a[8], b[8];
    load_pack(o.out + row * D + lane * 8, a);
    load_pack(o.dout + row * D + lane * 8, b);
    LONGWAVE_UNROLL
    for (int e = 0; e < 8; ++e) product += a[e] * b[e];
  }
  product = warp_reduce<Sum>(product);
  const std::int64_t head = row % o.heads, position = row / o.heads % o.length, sequence = row / o.heads / o.length;
  if (lane == 0) o.delta[(sequence * o.heads + head) * o.length + position] = product;
}

// What is the same for all logits of a head.
struct Head {
  float scale;  // in powers of two
  float slope;

  LONGWAVE_DEVICE Head(const AttentionOperands& o, std::int64_t head)
      : scale(o.scale * log2_e), slope(o.slopes == nullptr ? 0 : o.slopes[head] * log2_e) {}
  // exp(logit - lse), `distance` being query - key
  LONGWAVE_DEVICE float probability(float product, int distance, float lse2) const {
    return distance < 0 ? 0 : fast_exp2(product * scale - slope * static_cast<float>(distance) - lse2);
  }
};

// shared: keys and values, two stages of queries and dout; lse and delta of two stages
template <int D> LONGWAVE_KERNEL(block_threads) attention_backward_keys_kernel(AttentionOperands o) {
  constexpr int rows = other_rows<D>;
  constexpr int own_elements = own_rows * D, stage_elements = rows * D;
  LONGWAVE_SHARED(float, row_numbers, 4 * rows);  // [stage, lse or delta, row]
  auto* const keys = reinterpret_cast<Bf16*>(dynamic_shared());
  Bf16* const values = keys + own_elements;
  Bf16* const stages = values + own_elements;
  const int warp = thread() / 32, lane = thread() % 32;
  const int length = static_cast<int>(o.length);
  const int first_key = block_x() * own_rows;
  const std::int64_t kv_head = block_y(), sequence = block_z();
  const std::int64_t group = o.heads / o.kv_heads;
  const std::int64_t key_head = (sequence * o.kv_heads + kv_head) * o.length;
  // The tiles of queries at or after the first key, of each head in turn.
  const int first_tile = first_key / rows;
  const int tiles = (length + rows - 1) / rows - first_tile;
  const int steps = tiles * static_cast<int>(group);

  const auto fetch = [&](int step) {
    const std::int64_t head = kv_head * group + step / tiles;
    const int first = (first_tile + step % tiles) * rows;
    Bf16* const queries = stages + step % 2 * 2 * stage_elements;
    load_tile<D, rows, block_threads>(queries, o.q + (sequence * o.heads + head) * o.length * D, first, o.length, D);
    load_tile<D, rows, block_threads>(queries + stage_elements, o.dout + (sequence * o.length * o.heads + head) * D, first,
                                      o.length, o.heads * D);
    if (thread() < 2 * rows) {
      const int row = first + thread() % rows;
      const float* const from = thread() < rows ? o.lse : o.delta;
      row_numbers[step % 2 * 2 * rows + thread()] = row < length ? from[(sequence * o.heads + head) * o.length + row] : 0;
    }
  };
  load_tile<D, own_rows, block_threads>(keys, o.k + key_head * D, first_key, o.length, D);
  load_tile<D, own_rows, block_threads>(values, o.v + key_head * D, first_key, o.length, D);
  fetch(0);
  copy_async_commit();

  float dk[D / 8][4] = {}, dv[D / 8][4] = {};
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) fetch(step + 1);
    copy_async_commit();
    copy_async_wait<1>();
    barrier();
    const Head constants(o, kv_head * group + step / tiles);
    Bf16* const queries = stages + step % 2 * 2 * stage_elements;
    Bf16* const dout = queries + stage_elements;
    const float* const lse = row_numbers + step % 2 * 2 * rows;
    const float* const delta = lse + rows;
    const int first_query = (first_tile + step % tiles) * rows;
    float p[rows / 8][4] = {};  // transposed: keys down, queries across
    multiply_transposed<D, rows>(p, keys, warp * 16, queries);
    LONGWAVE_UNROLL
    for (int column = 0; column < rows / 8; ++column) {
      LONGWAVE_UNROLL
      for (int e = 0; e < 4; ++e) {
        const int query = column * 8 + lane % 4 * 2 + e % 2;
        const int key = first_key + warp * 16 + lane / 4 + e / 2 * 8;
        const bool exists = first_query + query < length;
        p[column][e] = exists ? constants.probability(p[column][e], first_query + query - key, lse[query] * log2_e) : 0;
      }
    }
    multiply_weights<D, rows>(dv, p, dout);
    float ds[rows / 8][4] = {};
    multiply_transposed<D, rows>(ds, values, warp * 16, dout);
    LONGWAVE_UNROLL
    for (int column = 0; column < rows / 8; ++column) {
      LONGWAVE_UNROLL
      for (int e = 0; e < 4; ++e) ds[column][e] = p[column][e] * (ds[column][e] - delta[column * 8 + lane % 4 * 2 + e % 2]);
    }
    multiply_weights<D, rows>(dk, ds, queries);
    barrier();  // before the next fetch overwrites this stage
  }
  store_rows<D>(dk, o.scale, o.scale, keys, warp * 16, o.dk + key_head * D, first_key + warp * 16, o.length, D);
  store_rows<D>(dv, 1, 1, values, warp * 16, o.dv + key_head * D, first_key + warp * 16, o.length, D);
}

// shared: queries and dout, two stages of keys and values
template <int D> LONGWAVE_KERNEL(block_threads) attention_backward_queries_kernel(AttentionOperands o) {
  constexpr int rows = other_rows<D>;
  constexpr int own_elements = own_rows * D, stage_elements = rows * D;
  auto* const queries = reinterpret_cast<Bf16*>(dynamic_shared());
  Bf16* const dout = queries + own_elements;
  Bf16* const stages = dout + own_elements;
  const int warp = thread() / 32, lane = thread() % 32;
  const int length = static_cast<int>(o.length);
  const int first_query = (grid_x() - 1 - block_x()) * own_rows;
  const std::int64_t head = block_y(), sequence = block_z();
  const std::int64_t query_head = (sequence * o.heads + head) * o.length;
  const std::int64_t key_head = (sequence * o.kv_heads + head / (o.heads / o.kv_heads)) * o.length;
  const int keys_end = first_query + own_rows < length ? first_query + own_rows : length;
  const int tiles = (keys_end + rows - 1) / rows;

  const auto fetch = [&](int tile) {
    Bf16* const keys = stages + tile % 2 * 2 * stage_elements;
    const int first = tile * rows;
    load_tile<D, rows, block_threads>(keys, o.k + key_head * D, first, o.length, D);
    load_tile<D, rows, block_threads>(keys + stage_elements, o.v + key_head * D, first, o.length, D);
  };
  load_tile<D, own_rows, block_threads>(queries, o.q + query_head * D, first_query, o.length, D);
  load_tile<D, own_rows, block_threads>(dout, o.dout + (sequence * o.length * o.heads + head) * D, first_query, o.length,
                                        o.heads * D);
  fetch(0);
  copy_async_commit();

  const Head constants(o, head);
  float lse2[2], delta[2];
  LONGWAVE_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int query = first_query + warp * 16 + lane / 4 + half * 8;
    lse2[half] = query < length ? o.lse[query_head + query] * log2_e : 0;
    delta[half] = query < length ? o.delta[query_head + query] : 0;
  }
  float dq[D / 8][4] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) fetch(tile + 1);
    copy_async_commit();
    copy_async_wait<1>();
    barrier();
    Bf16* const keys = stages + tile % 2 * 2 * stage_elements;
    float p[rows / 8][4] = {}, ds[rows / 8][4] = {};
    multiply_transposed<D, rows>(p, queries, warp * 16, keys);
    multiply_transposed<D, rows>(ds, dout, warp * 16, keys + stage_elements);
    LONGWAVE_UNROLL
    for (int column = 0; column < rows / 8; ++column) {
      LONGWAVE_UNROLL
      for (int e = 0; e < 4; ++e) {
        const int query = first_query + warp * 16 + lane / 4 + e / 2 * 8;
        const int key = tile * rows + column * 8 + lane % 4 * 2 + e % 2;
        const float probability = query < length ? constants.probability(p[column][e], query - key, lse2[e / 2]) : 0;
        ds[column][e] = probability * (ds[column][e] - delta[e / 2]);
      }
    }
    multiply_weights<D, rows>(dq, ds, keys);
    barrier();  // before the next fetch overwrites this stage
  }
  store_rows<D>(dq, o.scale, o.scale, queries, warp * 16, o.dq + query_head * D, first_query + warp * 16, o.length, D);
}

}  // namespace

template <int D> void attention_backward(cudaStream_t stream, const AttentionOperands& o) {
  constexpr std::size_t shared = (2 * own_rows + 4 * other_rows<D>) * D * sizeof(Bf16);
  const std::int64_t tiles = blocks_of(o.length, own_rows);
  launch("attention_delta", attention_delta_kernel<D>, {.x = blocks_of(o.batch * o.length * o.heads, block_threads / 32)},
         block_threads, 0, stream, o);
  launch("attention_backward_keys", attention_backward_keys_kernel<D>, {.x = tiles, .y = o.kv_heads, .z = o.batch}, block_threads,
         shared, stream, o);
  launch("attention_backward_queries", attention_backward_queries_kernel<D>, {.x = tiles, .y = o.heads, .z = o.batch},
         block_threads, shared, stream, o);
}
template void attention_backward<64>(cudaStream_t, const AttentionOperands&);
template void attention_backward<128>(cudaStream_t, const AttentionOperands&);

}  // namespace longwave::cuda
