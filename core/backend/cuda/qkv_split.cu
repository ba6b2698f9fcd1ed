#include <cmath>

#include "core/backend/cuda/kernels.h"
#include "core/backend/cuda/pack.h"

namespace longwave::cuda {
namespace {

using namespace device;

constexpr int block_threads = 256;

// A thread has eight pairs of one head of one token: components [8 part, 8 part + 8) and the same half a head later.
template <int D> struct Item {
  static constexpr int half = D / 2;
  static constexpr int parts = half / 8;

  std::int64_t row, sequence, position, head;  // head counts query, key and value heads, as in a row of qkv
  int part;
  bool active;  // the others repeat the last item, so that warps stay whole

  LONGWAVE_DEVICE Item(const QkvOperands& o, std::int64_t index, std::int64_t heads) {
    const std::int64_t items = o.batch * o.length * heads * parts;
    active = index < items;
    if (!active) index = items - 1;
    part = static_cast<int>(index % parts);
    head = index / parts % heads;
    row = index / parts / heads;
    sequence = row / o.length;
    position = row % o.length;
  }

  LONGWAVE_DEVICE std::int64_t in_qkv(const QkvOperands& o) const {
    return (row * (o.heads + 2 * o.kv_heads) + head) * D + part * 8;
  }
  LONGWAVE_DEVICE bool is_query(const QkvOperands& o) const { return head < o.heads; }
  LONGWAVE_DEVICE bool is_value(const QkvOperands& o) const { return head >= o.heads + o.kv_heads; }
  LONGWAVE_DEVICE std::int64_t kv_head(const QkvOperands& o) const {
    return is_query(o) ? head / (o.heads / o.kv_heads) : (head - o.heads) % o.kv_heads;
  }
  // Where this part lies in q, k or v.
  LONGWAVE_DEVICE Bf16* split(const QkvOperands& o) const {
    Bf16* const base = is_query(o) ? o.q : is_value(o) ? o.v : o.k;
    const std::int64_t heads = is_query(o) ? o.heads : o.kv_heads;
    const std::int64_t own = is_query(o) ? head : (head - o.heads) % o.kv_heads;
    return base + ((sequence * heads + own) * o.length + position) * D + part * 8;
  }
  LONGWAVE_DEVICE float* rstd(const QkvOperands& o) const {
    return o.rstd + (sequence * (o.heads + o.kv_heads) + head) * o.length + position;
  }
  LONGWAVE_DEVICE const Bf16* gain(const QkvOperands& o) const { return (is_query(o) ? o.query_gain : o.key_gain) + part * 8; }
};

// Sum over the threads that share a head.
template <int parts> LONGWAVE_DEVICE float head_sum(float value) {
  LONGWAVE_UNROLL
  for (int lanes = parts / 2; lanes > 0; lanes /= 2) value += shuffle_xor(value, lanes);
  return value;
}

template <int D> LONGWAVE_DEVICE void load_waves(const QkvOperands& o, const Item<D>& item, float (&c)[8], float (&s)[8]) {
  const std::int64_t table_head = o.table_heads == 1 ? 0 : item.kv_head(o);
  const std::int64_t line = (table_head * o.positions + item.position) * o.columns;
  const int column = item.part * 8;
  if (column + 8 <= o.columns && o.columns % 4 == 0) {
    load_pack(o.cosine + line + column, c);
    load_pack(o.sine + line + column, s);
    return;
  }
  LONGWAVE_UNROLL
  for (int e = 0; e < 8; ++e) {
    const bool kept = column + e < o.columns;
    c[e] = kept ? o.cosine[line + column + e] : o.tail_cosine;
    s[e] = kept ? o.sine[line + column + e] : o.tail_sine;
  }
}

template <int D> LONGWAVE_KERNEL(block_threads) qkv_split_forward_kernel(QkvOperands o) {
  const Item<D> item(o, static_cast<std::int64_t>(block_x()) * block_threads + thread(), o.heads + 2 * o.kv_heads);
  const Bf16* const from = o.qkv + item.in_qkv(o);
  float low[8], high[8];
  load_pack(from, low);
  load_pack(from + Item<D>::half, high);
  const bool is_value = item.is_value(o);
  if (o.query_gain != nullptr) {
    float squares = 0;
    LONGWAVE_UNROLL
    for (int e = 0; e < 8; ++e) squares += low[e] * low[e] + high[e] * high[e];
    squares = head_sum<Item<D>::parts>(squares);
    if (!is_value) {
      const float rstd = 1.0f / sqrtf(squares / static_cast<float>(D) + o.epsilon);
      if (item.active && item.part == 0) *item.rstd(o) = rstd;
      float low_gain[8], high_gain[8];
      load_pack(item.gain(o), low_gain);
      load_pack(item.gain(o) + Item<D>::half, high_gain);
      LONGWAVE_UNROLL
      for (int e = 0; e < 8; ++e) {
        low[e] *= rstd * low_gain[e];
        high[e] *= rstd * high_gain[e];
      }
    }
  }
  if (o.cosine != nullptr && !is_value) {
    float c[8], s[8];
    load_waves(o, item, c, s);
    LONGWAVE_UNROLL
    for (int e = 0; e < 8; ++e) {
      const float x = low[e], y = high[e];
      low[e] = x * c[e] - y * s[e];
      high[e] = y * c[e] + x * s[e];
    }
  }
  if (!item.active) return;
  store_pack(item.split(o), low);
  store_pack(item.split(o) + Item<D>::half, high);
}

// The gradient of what the rotation was given.
template <int D>
LONGWAVE_DEVICE void load_unrotated(const QkvOperands& o, const Item<D>& item, float (&low)[8], float (&high)[8]) {
  const Bf16* const from = item.split(o);
  load_pack(from, low);
  load_pack(from + Item<D>::half, high);
  if (o.cosine == nullptr || item.is_value(o)) return;
  float c[8], s[8];
  load_waves(o, item, c, s);
  LONGWAVE_UNROLL
  for (int e = 0; e < 8; ++e) {
    const float x = low[e], y = high[e];
    low[e] = x * c[e] + y * s[e];
    high[e] = y * c[e] - x * s[e];
  }
}

// x rstd of this part.
template <int D>
LONGWAVE_DEVICE float load_normalised(const QkvOperands& o, const Item<D>& item, float (&low)[8], float (&high)[8]) {
  const float rstd = *item.rstd(o);
  load_pack(o.qkv + item.in_qkv(o), low);
  load_pack(o.qkv + item.in_qkv(o) + Item<D>::half, high);
  LONGWAVE_UNROLL
  for (int e = 0; e < 8; ++e) low[e] *= rstd, high[e] *= rstd;
  return rstd;
}

template <int D> LONGWAVE_KERNEL(block_threads) qkv_split_backward_kernel(QkvOperands o) {
  const Item<D> item(o, static_cast<std::int64_t>(block_x()) * block_threads + thread(), o.heads + 2 * o.kv_heads);
  float low[8], high[8];
  load_unrotated(o, item, low, high);
  if (o.query_gain != nullptr) {
    // With z = x rstd and h = gain dy: dx = rstd (h - z mean(h z)).
    float low_z[8] = {}, high_z[8] = {};
    float rstd = 1, products = 0;
    const bool is_value = item.is_value(o);
    if (!is_value) {
      rstd = load_normalised(o, item, low_z, high_z);
      float low_gain[8], high_gain[8];
      load_pack(item.gain(o), low_gain);
      load_pack(item.gain(o) + Item<D>::half, high_gain);
      LONGWAVE_UNROLL
      for (int e = 0; e < 8; ++e) {
        low[e] *= low_gain[e];
        high[e] *= high_gain[e];
        products += low[e] * low_z[e] + high[e] * high_z[e];
      }
    }
    const float mean = head_sum<Item<D>::parts>(products) / static_cast<float>(D);
    LONGWAVE_UNROLL
    for (int e = 0; e < 8; ++e) {
      low[e] = (low[e] - low_z[e] * mean) * rstd;
      high[e] = (high[e] - high_z[e] * mean) * rstd;
    }
  }
  if (!item.active) return;
  store_pack(o.dqkv + item.in_qkv(o), low);
  store_pack(o.dqkv + item.in_qkv(o) + Item<D>::half, high);
}

// Part of the gradient of query_gain or key_gain: over the heads [first_head, first_head + heads) of a share of the tokens.
template <int D>
LONGWAVE_KERNEL(block_threads) gain_gradient_kernel(QkvOperands o, std::int64_t first_head, std::int64_t heads, float* partial) {
  LONGWAVE_SHARED(float, sums, block_threads * 16);
  constexpr int parts = Item<D>::parts;
  float low_sum[8] = {}, high_sum[8] = {};
  const std::int64_t items = o.batch * o.length * heads * parts;
  for (std::int64_t index = static_cast<std::int64_t>(block_x()) * block_threads + thread(); index < items;
       index += static_cast<std::int64_t>(grid_x()) * block_threads) {
    Item<D> item(o, index, heads);
    item.head += first_head;
    float low[8], high[8], low_z[8], high_z[8];
    load_unrotated(o, item, low, high);
    load_normalised(o, item, low_z, high_z);
    LONGWAVE_UNROLL
    for (int e = 0; e < 8; ++e) {
      low_sum[e] += low[e] * low_z[e];
      high_sum[e] += high[e] * high_z[e];
    }
  }
  // sums [threads of a part, part, component], the lower components first
  store_pack(sums + thread() * 16, low_sum);
  store_pack(sums + thread() * 16 + 8, high_sum);
  barrier();
  for (int d = thread(); d < D; d += block_threads) {
    const int part = d % Item<D>::half / 8, component = d / Item<D>::half * 8 + d % 8;
    float sum = 0;
    for (int i = part; i < block_threads; i += parts) sum += sums[i * 16 + component];
    partial[static_cast<std::int64_t>(block_x()) * D + d] = sum;
  }
}

// A thread has one element of the table and adds up all sequences and heads that it served, in order.
template <int D> LONGWAVE_KERNEL(block_threads) table_gradient_kernel(QkvOperands o, float* dcosine, float* dsine) {
  const std::int64_t index = static_cast<std::int64_t>(block_x()) * block_threads + thread();
  if (index >= o.table_heads * o.length * o.columns) return;
  const std::int64_t column = index % o.columns, position = index / o.columns % o.length, table_head = index / o.columns / o.length;
  const std::int64_t group = o.heads / o.kv_heads;
  float cosine_sum = 0, sine_sum = 0;
  for (std::int64_t sequence = 0; sequence < o.batch; ++sequence) {
    const std::int64_t row = sequence * o.length + position;
    for (std::int64_t head = 0; head < o.heads + o.kv_heads; ++head) {
      const bool is_query = head < o.heads;
      if (o.table_heads != 1 && (is_query ? head / group : head - o.heads) != table_head) continue;
      const Bf16* const x = o.qkv + (row * (o.heads + 2 * o.kv_heads) + head) * D + column;
      const Bf16* const g = is_query ? o.q + ((sequence * o.heads + head) * o.length + position) * D + column
                                     : o.k + ((sequence * o.kv_heads + head - o.heads) * o.length + position) * D + column;
      float low = to_float(x[0]), high = to_float(x[D / 2]);
      if (o.query_gain != nullptr) {
        const float rstd = o.rstd[(sequence * (o.heads + o.kv_heads) + head) * o.length + position];
        const Bf16* const gain = (is_query ? o.query_gain : o.key_gain) + column;
        low *= rstd * to_float(gain[0]);
        high *= rstd * to_float(gain[D / 2]);
      }
      const float low_gradient = to_float(g[0]), high_gradient = to_float(g[D / 2]);
      cosine_sum += low_gradient * low + high_gradient * high;
      sine_sum += high_gradient * low - low_gradient * high;
    }
  }
  const std::int64_t to = (table_head * o.positions + position) * o.columns + column;
  dcosine[to] += cosine_sum;
  dsine[to] += sine_sum;
}

template <int D> std::int64_t grid_of(const QkvOperands& o) {
  return blocks_of(o.batch * o.length * (o.heads + 2 * o.kv_heads) * Item<D>::parts, block_threads);
}

template <int D>
void launch_backward(cudaStream_t stream, const QkvOperands& o, float* dquery_gain, float* dkey_gain, float* partial,
                     float* dcosine, float* dsine) {
  launch("qkv_split_backward", qkv_split_backward_kernel<D>, {.x = grid_of<D>(o)}, block_threads, 0, stream, o);
  if (o.query_gain != nullptr) {
    launch("query_gain_gradient", gain_gradient_kernel<D>, {.x = gain_blocks}, block_threads, 0, stream, o, 0, o.heads, partial);
    add_lines(stream, partial, gain_blocks, D, dquery_gain);
    launch("key_gain_gradient", gain_gradient_kernel<D>, {.x = gain_blocks}, block_threads, 0, stream, o, o.heads, o.kv_heads,
           partial);
    add_lines(stream, partial, gain_blocks, D, dkey_gain);
  }
  if (dcosine != nullptr) {
    launch("table_gradient", table_gradient_kernel<D>, {.x = blocks_of(o.table_heads * o.length * o.columns, block_threads)},
           block_threads, 0, stream, o, dcosine, dsine);
  }
}

}  // namespace

void qkv_split_forward(cudaStream_t stream, const QkvOperands& operands, std::int64_t head_dim) {
  if (head_dim == 64) {
    launch("qkv_split_forward", qkv_split_forward_kernel<64>, {.x = grid_of<64>(operands)}, block_threads, 0, stream, operands);
  } else {
    launch("qkv_split_forward", qkv_split_forward_kernel<128>, {.x = grid_of<128>(operands)}, block_threads, 0, stream, operands);
  }
}

void qkv_split_backward(cudaStream_t stream, const QkvOperands& operands, std::int64_t head_dim, float* dquery_gain,
                        float* dkey_gain, float* partial, float* dcosine, float* dsine) {
  if (head_dim == 64) {
    launch_backward<64>(stream, operands, dquery_gain, dkey_gain, partial, dcosine, dsine);
  } else {
    launch_backward<128>(stream, operands, dquery_gain, dkey_gain, partial, dcosine, dsine);
  }
}

}  // namespace longwave::cuda
