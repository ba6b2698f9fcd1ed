#include "core/backend/cpu/qkv_split.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "core/backend/cpu/parallel.h"
#include "core/backend/cpu/qkv_split_kernels.h"
#include "core/base/error.h"

namespace longwave {

LONGWAVE_DEFINE_KERNELS(QkvSplitKernels, qkv_split_kernels)

namespace {

// Gains in fp32, whatever the compute type.
struct Gains {
  float query[qkv_max_head_dim];
  float key[qkv_max_head_dim];
};

void widen(Tensor gain, float* to) {
  for (std::int64_t i = 0; i < gain.count(); ++i) {
    to[i] = gain.dtype == DType::bf16 ? static_cast<float>(gain.as<bf16>()[i]) : gain.as<float>()[i];
  }
}

QkvOperands operands_of(Tensor q, Tensor k, Tensor v, AttentionShape shape, const PositionTable& table, const QkNorm& norm,
                        Tensor qk_rstd, Gains& gains) {
  LONGWAVE_CHECK(shape.head_dim > 0 && shape.head_dim % 2 == 0 && shape.head_dim <= qkv_max_head_dim,
                 "head_dim is {}, wants an even number up to {}", shape.head_dim, qkv_max_head_dim);
  LONGWAVE_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, "{} heads on {} KV heads", shape.heads,
                 shape.kv_heads);
  LONGWAVE_CHECK(q.dtype == DType::f32 || q.dtype == DType::bf16, "q is {}", name_of(q.dtype));
  LONGWAVE_CHECK(k.dtype == q.dtype && v.dtype == q.dtype);
  const std::int64_t head_elements = shape.batch * shape.length * shape.head_dim;
  LONGWAVE_CHECK(q.count() == head_elements * shape.heads && k.count() == head_elements * shape.kv_heads &&
                 v.count() == k.count());
  QkvOperands operands;
  operands.length = shape.length;
  operands.heads = shape.heads;
  operands.kv_heads = shape.kv_heads;
  operands.head_dim = shape.head_dim;
  operands.q = q.data;
  operands.k = k.data;
  operands.v = v.data;
  if (table.active()) {
    LONGWAVE_CHECK(table.in_memory() || table.cosine.count() == 0, "the CPU has no series without a table");
    LONGWAVE_CHECK(table.sine.shape == table.cosine.shape);
    LONGWAVE_CHECK(table.heads() == 1 || table.heads() == shape.kv_heads, "a table of {} heads", table.heads());
    LONGWAVE_CHECK(table.positions() >= shape.length, "a table of {} positions, length {}", table.positions(), shape.length);
    LONGWAVE_CHECK(table.columns() <= shape.head_dim / 2, "a table of {} columns", table.columns());
    operands.rotates = true;
    operands.cosine = table.cosine.as<float>();
    operands.sine = table.sine.as<float>();
    operands.table_heads = table.heads();
    operands.positions = table.positions();
    operands.columns = table.columns();
    operands.tail_cosine = table.tail_cosine;
    operands.tail_sine = table.tail_sine;
  }
  if (norm.query_gain) {
    LONGWAVE_CHECK(norm.query_gain.count() == shape.head_dim && norm.key_gain.count() == shape.head_dim);
    LONGWAVE_CHECK(qk_rstd.count() == shape.batch * (shape.heads + shape.kv_heads) * shape.length);
    widen(norm.query_gain, gains.query);
    widen(norm.key_gain, gains.key);
    operands.query_gain = gains.query;
    operands.key_gain = gains.key;
    operands.epsilon = norm.epsilon;
    operands.rstd = qk_rstd.as<float>();
  }
  return operands;
}

// Whether heads of `head_dim` are worth writing past the caches to these tensors, together the output.
bool streams(std::initializer_list<Tensor> outputs, std::int64_t head_dim) {
  std::size_t bytes = 0;
  for (const Tensor& output : outputs) {
    if (output.dtype != DType::bf16 || !on_lines(output)) return false;
    bytes += output.bytes();
  }
  return head_dim % 64 == 0 && bytes > cached_output_bytes;
}

std::int64_t qkv_count(AttentionShape shape) {
  return shape.batch * shape.length * (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
}

}  // namespace

void qkv_split_forward_cpu(Tensor qkv, AttentionShape shape, const PositionTable& table, const QkNorm& norm, Tensor q, Tensor k,
                           Tensor v, Tensor qk_rstd) {
  Gains gains;
  QkvOperands operands = operands_of(q, k, v, shape, table, norm, qk_rstd, gains);
  LONGWAVE_CHECK(qkv.dtype == q.dtype && qkv.count() == qkv_count(shape));
  operands.qkv = qkv.data;
  operands.stream = streams({q, k, v}, shape.head_dim);
  const auto kernel = q.dtype == DType::f32 ? qkv_split_kernels().forward_f32 : qkv_split_kernels().forward_bf16;
  constexpr std::int64_t span = 64;
  const std::int64_t spans = divide_up(shape.length, span);
#pragma omp parallel for schedule(static)
  for (std::int64_t unit = 0; unit < shape.batch * spans; ++unit) {
    const std::int64_t begin = unit % spans * span;
    kernel(operands, {unit / spans, begin, std::min(begin + span, shape.length)});
  }
}

void qkv_split_backward_cpu(Tensor dq, Tensor dk, Tensor dv, Tensor qkv, AttentionShape shape, const PositionTable& table,
                            const QkNorm& norm, Tensor qk_rstd, Tensor dqkv, Tensor dquery_gain, Tensor dkey_gain,
                            const PositionTable* dtable) {
  Gains gains;
  QkvOperands operands = operands_of(dq, dk, dv, shape, table, norm, qk_rstd, gains);
  LONGWAVE_CHECK(dqkv.dtype == dq.dtype && dqkv.count() == qkv_count(shape));
  operands.dqkv = dqkv.data;
  operands.stream = streams({dqkv}, shape.head_dim);
  const bool norms = operands.query_gain != nullptr;
  if (dtable != nullptr) {
    LONGWAVE_CHECK(table.active() && dtable->cosine.shape == table.cosine.shape && dtable->sine.shape == table.sine.shape);
    operands.dcosine = dtable->cosine.as<float>();
    operands.dsine = dtable->sine.as<float>();
  }
  if (norms || dtable != nullptr) {
    LONGWAVE_CHECK(qkv.dtype == dq.dtype && qkv.count() == qkv_count(shape));
    operands.qkv = qkv.data;
  }
  if (norms) LONGWAVE_CHECK(dquery_gain.count() == shape.head_dim && dkey_gain.count() == shape.head_dim);
  const auto kernel = dq.dtype == DType::f32 ? qkv_split_kernels().backward_f32 : qkv_split_kernels().backward_bf16;

  // A thread owns positions, in all sequences, and with them their rows of dtable. The gains' gradients are summed by
  // chunk of positions, then over the chunks; neither depends on the number of threads.
  constexpr std::int64_t max_chunks = 64;
  constexpr std::int64_t chunk_floats = 2 * qkv_max_head_dim;
  thread_local std::vector<float> chunk_sums(static_cast<std::size_t>(max_chunks * chunk_floats));
  float* const sums = chunk_sums.data();
  if (norms) std::fill(chunk_sums.begin(), chunk_sums.end(), 0.0f);
  const std::int64_t chunks = std::clamp<std::int64_t>(shape.length / 16, 1, max_chunks);
#pragma omp parallel for schedule(static)
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    float* const query_sum = sums + chunk * chunk_floats;
    const std::int64_t begin = chunk * shape.length / chunks, end = (chunk + 1) * shape.length / chunks;
    for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence) {
      kernel(operands, {sequence, begin, end}, {query_sum, query_sum + qkv_max_head_dim});
    }
  }
  if (!norms) return;
  for (std::int64_t d = 0; d < shape.head_dim; ++d) {
    float query = 0, key = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      query += sums[chunk * chunk_floats + d];
      key += sums[chunk * chunk_floats + qkv_max_head_dim + d];
    }
    dquery_gain.as<float>()[d] += query;
    dkey_gain.as<float>()[d] += key;
  }
}

}  // namespace longwave
