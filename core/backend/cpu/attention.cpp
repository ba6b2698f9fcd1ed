#include "core/backend/cpu/attention.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "core/backend/cpu/attention_kernels.h"
#include "core/base/divide.h"
#include "core/base/error.h"

namespace longwave {

LONGWAVE_DEFINE_KERNELS(AttentionForwardKernels, attention_forward_kernels)
LONGWAVE_DEFINE_KERNELS(AttentionBackwardKernels, attention_backward_kernels)

namespace {

struct AlignedDelete {
  void operator()(float* pointer) const { ::operator delete[](pointer, std::align_val_t{64}); }
};

// One per thread, for the life of the thread.
float* thread_scratch() {
  thread_local const std::unique_ptr<float[], AlignedDelete> scratch(
      new (std::align_val_t{64}) float[static_cast<std::size_t>(attention_scratch_floats)]());
  return scratch.get();
}

AttentionOperands operands_of(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, AttentionShape shape,
                              AttentionOptions options) {
  LONGWAVE_CHECK(shape.head_dim > 0 && shape.head_dim % 2 == 0 && shape.head_dim <= attention_max_head_dim,
                 "head_dim is {}, wants an even number up to {}", shape.head_dim, attention_max_head_dim);
  LONGWAVE_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, "{} heads on {} KV heads", shape.heads,
                 shape.kv_heads);
  LONGWAVE_CHECK(q.dtype == DType::f32 || q.dtype == DType::bf16, "q is {}", name_of(q.dtype));
  LONGWAVE_CHECK(k.dtype == q.dtype && v.dtype == q.dtype && out.dtype == q.dtype);
  const std::int64_t query_elements = shape.batch * shape.heads * shape.length * shape.head_dim;
  const std::int64_t key_elements = shape.batch * shape.kv_heads * shape.length * shape.head_dim;
  LONGWAVE_CHECK(q.count() == query_elements && out.count() == query_elements);
  LONGWAVE_CHECK(k.count() == key_elements && v.count() == key_elements);
  LONGWAVE_CHECK(lse.count() == shape.batch * shape.heads * shape.length);
  AttentionOperands operands;
  operands.q = q.data;
  operands.k = k.data;
  operands.v = v.data;
  operands.out = out.data;
  operands.lse = lse.as<float>();
  operands.length = shape.length;
  operands.heads = shape.heads;
  operands.kv_heads = shape.kv_heads;
  operands.head_dim = shape.head_dim;
  operands.scale = options.scale;
  operands.slopes = options.slopes;
  return operands;
}

// Whether the kernels on AMX tiles take it, and how many blocks of queries they take at once.
bool on_tiles(DType dtype, std::int64_t head_dim) {
  return dtype == DType::bf16 && head_dim % 32 == 0 && active_isa() == Isa::amx_bf16;
}
// As many as attention_scratch_floats holds.
std::int64_t blocks_at_once(bool tiles, std::int64_t head_dim) {
  return !tiles ? 1 : head_dim <= 128 ? attention_most_query_blocks : 2;
}

// How the partial sums of dk and dv lie in the workspace: parts, each dk and dv of all KV heads.
struct PartialSums {
  std::int64_t parts = 0;
  std::int64_t row = 0;   // floats of a token's row
  std::int64_t head = 0;  // floats of one KV head of one sequence
  std::int64_t part = 0;  // floats of a part: dk of B G heads, then dv

  explicit PartialSums(AttentionShape shape) {
    const std::int64_t groups = std::max<std::int64_t>(shape.batch * shape.kv_heads, 1);
    const std::int64_t blocks = shape.heads / shape.kv_heads * divide_up(shape.length, attention_block);
    parts = std::clamp<std::int64_t>(16 / groups, 1, std::clamp<std::int64_t>(blocks, 1, 8));
    row = round_up(shape.head_dim, attention_lane_multiple);
    head = row * round_up(shape.length, attention_block);
    part = 2 * groups * head;
  }
};

}  // namespace

void attention_forward_cpu(Tensor q, Tensor k, Tensor v, AttentionShape shape, AttentionOptions options, Tensor out,
                           Tensor lse) {
  const AttentionOperands operands = operands_of(q, k, v, out, lse, shape, options);
  const auto block_kernel =
      q.dtype == DType::f32 ? attention_forward_kernels().block_f32 : attention_forward_kernels().block_bf16;
  const std::int64_t blocks = divide_up(shape.length, attention_block);
  const bool tiles = on_tiles(q.dtype, shape.head_dim);
  const std::int64_t at_once = blocks_at_once(tiles, shape.head_dim);
  const std::int64_t ranges = divide_up(blocks, at_once);
  const std::int64_t units = shape.batch * shape.heads * ranges;
  // The last blocks of queries have the most keys: they go first, and the short ones fill the end.
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t unit = 0; unit < units; ++unit) {
    const std::int64_t head = unit / ranges;
    const std::int64_t block = (ranges - 1 - unit % ranges) * at_once;
    const AttentionBlock first{head / shape.heads, head % shape.heads, block * attention_block};
    if (tiles) {
      const auto count = static_cast<int>(std::min(at_once, blocks - block));
      simd::amx_bf16::amx_attention_kernels.forward(operands, first, count, thread_scratch());
    } else {
      block_kernel(operands, first, thread_scratch());
    }
  }
}

std::int64_t attention_backward_workspace_cpu(AttentionShape shape) {
  const PartialSums sums(shape);
  return sums.parts * sums.part;
}

void attention_backward_cpu(Tensor q, Tensor k, Tensor v, Tensor out, Tensor dout, Tensor lse, AttentionShape shape,
                            AttentionOptions options, Tensor dq, Tensor dk, Tensor dv, Tensor workspace) {
  AttentionOperands operands = operands_of(q, k, v, out, lse, shape, options);
  LONGWAVE_CHECK(dout.dtype == q.dtype && dq.dtype == q.dtype && dk.dtype == q.dtype && dv.dtype == q.dtype);
  LONGWAVE_CHECK(dout.count() == q.count() && dq.count() == q.count() && dk.count() == k.count() && dv.count() == v.count());
  operands.dout = dout.data;
  operands.dq = dq.data;
  const AttentionBackwardKernels& kernels = attention_backward_kernels();
  const auto block_kernel = q.dtype == DType::f32 ? kernels.block_f32 : kernels.block_bf16;
  const PartialSums sums(shape);
  LONGWAVE_CHECK(workspace.count() >= sums.parts * sums.part, "workspace of {} elements, wants {}", workspace.count(),
                 sums.parts * sums.part);
  float* const base = workspace.as<float>();
  const std::int64_t groups = shape.batch * shape.kv_heads;
  const std::int64_t heads_of_group = shape.heads / shape.kv_heads;
  const std::int64_t blocks = divide_up(shape.length, attention_block);
  const bool tiles = on_tiles(q.dtype, shape.head_dim);
  const std::int64_t at_once = blocks_at_once(tiles, shape.head_dim);
  const std::int64_t ranges = divide_up(blocks, at_once);

  // Turns the sums of one row, `at` those of its dk in the first part, into row r of dk and dv.
  const auto write_row = [&](const float* at, std::int64_t r) {
    const float* const dv_at = at + groups * sums.head;
    const std::int64_t to = r * shape.head_dim;
    if (q.dtype == DType::f32) {
      kernels.sum_parts_f32(at, sums.parts, sums.part, options.scale, dk.as<float>() + to, shape.head_dim);
      kernels.sum_parts_f32(dv_at, sums.parts, sums.part, 1, dv.as<float>() + to, shape.head_dim);
    } else {
      const auto bits = [](Tensor tensor) { return static_cast<Bf16Bits*>(tensor.data); };
      kernels.sum_parts_bf16(at, sums.parts, sums.part, options.scale, bits(dk) + to, shape.head_dim);
      kernels.sum_parts_bf16(dv_at, sums.parts, sums.part, 1, bits(dv) + to, shape.head_dim);
    }
  };
  // A head with one part is written by the thread that summed it, from memory that thread keeps in its cache.
  const bool whole = sums.parts == 1;
  const bool by_thread = whole && omp_get_max_threads() <= groups;

  // A unit owns one part of one KV head's sums and adds every parts-th range of queries, in a fixed order.
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t unit = 0; unit < groups * sums.parts; ++unit) {
    const std::int64_t group = unit / sums.parts;
    const std::int64_t part = unit % sums.parts;
    const std::int64_t place = by_thread ? omp_get_thread_num() : group;
    float* const dk_sum = base + part * sums.part + place * sums.head;
    float* const dv_sum = dk_sum + groups * sums.head;
    std::memset(dk_sum, 0, static_cast<std::size_t>(sums.head) * sizeof(float));
    std::memset(dv_sum, 0, static_cast<std::size_t>(sums.head) * sizeof(float));
    for (std::int64_t index = part; index < heads_of_group * ranges; index += sums.parts) {
      const std::int64_t head = group % shape.kv_heads * heads_of_group + index / ranges;
      const std::int64_t block = (ranges - 1 - index % ranges) * at_once;
      const AttentionBlock first{group / shape.kv_heads, head, block * attention_block};
      if (tiles) {
        const auto count = static_cast<int>(std::min(at_once, blocks - block));
        simd::amx_bf16::amx_attention_kernels.backward(operands, first, count, {dk_sum, dv_sum}, thread_scratch());
      } else {
        block_kernel(operands, first, {dk_sum, dv_sum}, thread_scratch());
      }
    }
    for (std::int64_t t = 0; whole && t < shape.length; ++t) write_row(dk_sum + t * sums.row, group * shape.length + t);
  }

  if (whole) return;
  const std::int64_t rows = groups * shape.length;
#pragma omp parallel for schedule(static)
  for (std::int64_t r = 0; r < rows; ++r) {
    write_row(base + r / shape.length * sums.head + r % shape.length * sums.row, r);
  }
}

}  // namespace longwave
