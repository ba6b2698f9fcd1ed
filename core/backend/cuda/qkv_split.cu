#include "core/backend/cuda/qkv_item.h"

namespace longwave::cuda {
namespace {

using namespace device;

constexpr int block_threads = qkv_threads;

// Waves as position_table.cu left them.
template <int D> struct TableWaves {
  const QkvOperands& o;

  LONGWAVE_DEVICE bool rotates() const { return o.cosine != nullptr; }
  LONGWAVE_DEVICE void load(const QkvItem<D>& item, float (&c)[8], float (&s)[8]) const {
    const std::int64_t table_head = o.table_heads == 1 ? 0 : item.kv_head(o);
    const std::int64_t line = (table_head * o.positions + item.position) * o.columns;
    load_waves(o, o.cosine + line, o.sine + line, item.part * 8, c, s);
  }
};

template <int D> LONGWAVE_DEVICE QkvItem<D> own_item(const QkvOperands& o) {
  return {o, static_cast<std::int64_t>(block_x()) * block_threads + thread(), o.heads + 2 * o.kv_heads};
}

template <int D> LONGWAVE_KERNEL(block_threads) qkv_split_forward_kernel(QkvOperands o) {
  split_forward(o, own_item<D>(o), TableWaves<D>{o});
}

template <int D> LONGWAVE_KERNEL(block_threads) qkv_split_backward_kernel(QkvOperands o) {
  split_backward(o, own_item<D>(o), TableWaves<D>{o});
}

// Part of the gradient of query_gain or key_gain: over the heads [first_head, first_head + heads) of a share of the tokens.
template <int D>
LONGWAVE_KERNEL(block_threads) gain_gradient_kernel(QkvOperands o, std::int64_t first_head, std::int64_t heads, float* partial) {
  LONGWAVE_SHARED(float, sums, block_threads * 16);
  float low_sum[8] = {}, high_sum[8] = {};
  const std::int64_t items = o.batch * o.length * heads * QkvItem<D>::parts;
  for (std::int64_t index = static_cast<std::int64_t>(block_x()) * block_threads + thread(); index < items;
       index += static_cast<std::int64_t>(grid_x()) * block_threads) {
    QkvItem<D> item(o, index, heads);
    item.head += first_head;
    add_gain_gradient(o, item, TableWaves<D>{o}, low_sum, high_sum);
  }
  store_gain_gradient<D>(sums, low_sum, high_sum, partial);
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
  return blocks_of(o.batch * o.length * (o.heads + 2 * o.kv_heads) * QkvItem<D>::parts, block_threads);
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
  if (operands.series.frequencies != nullptr) return qkv_series_forward(stream, operands, head_dim);
  if (head_dim == 64) {
    launch("qkv_split_forward", qkv_split_forward_kernel<64>, {.x = grid_of<64>(operands)}, block_threads, 0, stream, operands);
  } else {
    launch("qkv_split_forward", qkv_split_forward_kernel<128>, {.x = grid_of<128>(operands)}, block_threads, 0, stream, operands);
  }
}

void qkv_split_backward(cudaStream_t stream, const QkvOperands& operands, std::int64_t head_dim, float* dquery_gain,
                        float* dkey_gain, float* partial, float* dcosine, float* dsine) {
  if (operands.series.frequencies != nullptr) {
    return qkv_series_backward(stream, operands, head_dim, dquery_gain, dkey_gain, partial);
  }
  if (head_dim == 64) {
    launch_backward<64>(stream, operands, dquery_gain, dkey_gain, partial, dcosine, dsine);
  } else {
    launch_backward<128>(stream, operands, dquery_gain, dkey_gain, partial, dcosine, dsine);
  }
}

}  // namespace longwave::cuda
