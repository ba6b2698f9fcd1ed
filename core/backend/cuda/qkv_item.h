// A thread's share of the QKV split, and what is done with it. Kernels differ in where the rotation's waves come from: a table
// in memory (qkv_split.cu), or the series evaluated by the block (qkv_series.cu).
#pragma once

#include <cmath>

#include "core/backend/cuda/kernels.h"
#include "core/backend/cuda/pack.h"

namespace longwave::cuda {

constexpr int qkv_threads = 256;

// Positions [first, first + count) of every sequence, and of the heads that share a line of waves (the query heads that read
// KV head `kv_head`, its key, its value) those from `first_member` on.
struct QkvGroup {
  std::int64_t first, count, kv_head, first_member, members;
};

// A thread has eight pairs of one head of one token: components [8 part, 8 part + 8) and the same half a head later.
template <int D> struct QkvItem {
  static constexpr int half = D / 2;
  static constexpr int parts = half / 8;

  std::int64_t row, sequence, position, head;  // head counts query, key and value heads, as in a row of qkv
  int part;
  bool active;  // the others repeat the last item, so that warps stay whole

  LONGWAVE_DEVICE QkvItem(const QkvOperands& o, std::int64_t index, std::int64_t heads) {
    index = limit(index, o.batch * o.length * heads * parts);
    part = static_cast<int>(index % parts);
    head = index / parts % heads;
    // A position's sequences follow each other, so that its line of the table is read from memory once.
    sequence = index / parts / heads % o.batch;
    position = index / parts / heads / o.batch;
    row = sequence * o.length + position;
  }
  LONGWAVE_DEVICE QkvItem(const QkvOperands& o, std::int64_t index, const QkvGroup& group) {
    index = limit(index, items(o, group));
    part = static_cast<int>(index % parts);
    const std::int64_t member = group.first_member + index / parts % group.members, readers = o.heads / o.kv_heads;
    head = member < readers ? group.kv_head * readers + member : o.heads + (member - readers) * o.kv_heads + group.kv_head;
    position = group.first + index / parts / group.members % group.count;
    sequence = index / parts / group.members / group.count;
    row = sequence * o.length + position;
  }
  LONGWAVE_DEVICE static std::int64_t items(const QkvOperands& o, const QkvGroup& group) {
    return o.batch * group.count * group.members * parts;
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

 private:
  LONGWAVE_DEVICE std::int64_t limit(std::int64_t index, std::int64_t items) {
    active = index < items;
    return active ? index : items - 1;
  }
};

// Sum over the threads that share a head.
template <int parts> LONGWAVE_DEVICE float head_sum(float value) {
  LONGWAVE_UNROLL
  for (int lanes = parts / 2; lanes > 0; lanes /= 2) value += device::shuffle_xor(value, lanes);
  return value;
}

// Eight columns, from `column` on, of a position's lines of waves; past their end the waves are constant.
LONGWAVE_DEVICE void load_waves(const QkvOperands& o, const float* cosine, const float* sine, int column, float (&c)[8],
                                float (&s)[8]) {
  if (column + 8 <= o.columns && o.columns % 4 == 0) {
    device::load_pack(cosine + column, c);
    device::load_pack(sine + column, s);
    return;
  }
  LONGWAVE_UNROLL
  for (int e = 0; e < 8; ++e) {
    const bool kept = column + e < o.columns;
    c[e] = kept ? cosine[column + e] : o.tail_cosine;
    s[e] = kept ? sine[column + e] : o.tail_sine;
  }
}

// qkv -> q, k or v. All lanes of a warp take part.
template <int D, class Waves>
LONGWAVE_DEVICE void split_forward(const QkvOperands& o, const QkvItem<D>& item, const Waves& waves) {
  const Bf16* const from = o.qkv + item.in_qkv(o);
  float low[8], high[8];
  device::load_pack(from, low);
  device::load_pack(from + QkvItem<D>::half, high);
  const bool is_value = item.is_value(o);
  if (o.query_gain != nullptr) {
    float squares = 0;
    LONGWAVE_UNROLL
    for (int e = 0; e < 8; ++e) squares += low[e] * low[e] + high[e] * high[e];
    squares = head_sum<QkvItem<D>::parts>(squares);
    if (!is_value) {
      const float rstd = 1.0f / sqrtf(squares / static_cast<float>(D) + o.epsilon);
      if (item.active && item.part == 0) *item.rstd(o) = rstd;
      float low_gain[8], high_gain[8];
      device::load_pack(item.gain(o), low_gain);
      device::load_pack(item.gain(o) + QkvItem<D>::half, high_gain);
      LONGWAVE_UNROLL
      for (int e = 0; e < 8; ++e) {
        low[e] *= rstd * low_gain[e];
        high[e] *= rstd * high_gain[e];
      }
    }
  }
  if (waves.rotates() && !is_value) {
    float c[8], s[8];
    waves.load(item, c, s);
    LONGWAVE_UNROLL
    for (int e = 0; e < 8; ++e) {
      const float x = low[e], y = high[e];
      low[e] = x * c[e] - y * s[e];
      high[e] = y * c[e] + x * s[e];
    }
  }
  if (!item.active) return;
  device::store_pack(item.split(o), low);
  device::store_pack(item.split(o) + QkvItem<D>::half, high);
}

// The gradient of what the rotation was given.
template <int D, class Waves>
LONGWAVE_DEVICE void load_unrotated(const QkvOperands& o, const QkvItem<D>& item, const Waves& waves, float (&low)[8],
                                    float (&high)[8]) {
  const Bf16* const from = item.split(o);
  device::load_pack(from, low);
  device::load_pack(from + QkvItem<D>::half, high);
  if (!waves.rotates() || item.is_value(o)) return;
  float c[8], s[8];
  waves.load(item, c, s);
  LONGWAVE_UNROLL
  for (int e = 0; e < 8; ++e) {
    const float x = low[e], y = high[e];
    low[e] = x * c[e] + y * s[e];
    high[e] = y * c[e] - x * s[e];
  }
}

// x rstd of this part.
template <int D>
LONGWAVE_DEVICE float load_normalised(const QkvOperands& o, const QkvItem<D>& item, float (&low)[8], float (&high)[8]) {
  const float rstd = *item.rstd(o);
  device::load_pack(o.qkv + item.in_qkv(o), low);
  device::load_pack(o.qkv + item.in_qkv(o) + QkvItem<D>::half, high);
  LONGWAVE_UNROLL
  for (int e = 0; e < 8; ++e) low[e] *= rstd, high[e] *= rstd;
  return rstd;
}

// dq, dk or dv -> dqkv. All lanes of a warp take part.
template <int D, class Waves>
LONGWAVE_DEVICE void split_backward(const QkvOperands& o, const QkvItem<D>& item, const Waves& waves) {
  float low[8], high[8];
  load_unrotated(o, item, waves, low, high);
  if (o.query_gain != nullptr) {
    // With z = x rstd and h = gain dy: dx = rstd (h - z mean(h z)).
    float low_z[8] = {}, high_z[8] = {};
    float rstd = 1, products = 0;
    const bool is_value = item.is_value(o);
    if (!is_value) {
      rstd = load_normalised(o, item, low_z, high_z);
      float low_gain[8], high_gain[8];
      device::load_pack(item.gain(o), low_gain);
      device::load_pack(item.gain(o) + QkvItem<D>::half, high_gain);
      LONGWAVE_UNROLL
      for (int e = 0; e < 8; ++e) {
        low[e] *= low_gain[e];
        high[e] *= high_gain[e];
        products += low[e] * low_z[e] + high[e] * high_z[e];
      }
    }
    const float mean = head_sum<QkvItem<D>::parts>(products) / static_cast<float>(D);
    LONGWAVE_UNROLL
    for (int e = 0; e < 8; ++e) {
      low[e] = (low[e] - low_z[e] * mean) * rstd;
      high[e] = (high[e] - high_z[e] * mean) * rstd;
    }
  }
  if (!item.active) return;
  device::store_pack(o.dqkv + item.in_qkv(o), low);
  device::store_pack(o.dqkv + item.in_qkv(o) + QkvItem<D>::half, high);
}

// The part of a gain's gradient that comes from one item: dy x rstd, of its sixteen components.
template <int D, class Waves>
LONGWAVE_DEVICE void add_gain_gradient(const QkvOperands& o, const QkvItem<D>& item, const Waves& waves, float (&low_sum)[8],
                                       float (&high_sum)[8]) {
  float low[8], high[8], low_z[8], high_z[8];
  load_unrotated(o, item, waves, low, high);
  load_normalised(o, item, low_z, high_z);
  LONGWAVE_UNROLL
  for (int e = 0; e < 8; ++e) {
    low_sum[e] += low[e] * low_z[e];
    high_sum[e] += high[e] * high_z[e];
  }
}

// The block's sums, over the threads of each part in order, to this block's line of `partial`. `sums`: fp32 [qkv_threads, 16].
template <int D>
LONGWAVE_DEVICE void store_gain_gradient(float* sums, const float (&low_sum)[8], const float (&high_sum)[8], float* partial) {
  constexpr int parts = QkvItem<D>::parts;
  // sums [threads of a part, part, component], the lower components first
  device::store_pack(sums + device::thread() * 16, low_sum);
  device::store_pack(sums + device::thread() * 16 + 8, high_sum);
  device::barrier();
  for (int d = device::thread(); d < D; d += qkv_threads) {
    const int part = d % QkvItem<D>::half / 8, component = d / QkvItem<D>::half * 8 + d % 8;
    float sum = 0;
    for (int i = part; i < qkv_threads; i += parts) sum += sums[i * 16 + component];
    partial[static_cast<std::int64_t>(device::block_x()) * D + d] = sum;
  }
}

}  // namespace longwave::cuda
