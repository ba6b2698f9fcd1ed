// How the layers talk to the other shards of a tensor-parallel group (Shoeybi et al., Megatron-LM, arXiv 1909.08053;
// sequence parallelism: Korthikanti et al., arXiv 2205.05198). `parallel` implements it; with one shard every call is a
// no-op, and the model code is the same.
//
// Rows are tokens: a micro-batch of B sequences of T tokens is B*T rows. Under sequence parallelism norms and the residual
// stream hold only `local_rows` of them; the rows are padded with zeros to a multiple of the group.
#pragma once

#include <cstdint>

#include "core/base/divide.h"
#include "core/tensor/tensor.h"

namespace longwave {

class TensorGroup {
 public:
  virtual ~TensorGroup() = default;
  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }
  // True when norms and the residual stream are split over the group along the rows.
  virtual bool sequence_parallel() const { return false; }

  // In place over the group; dtype fp32, bf16 (reduced in fp32) or fp64.
  virtual void all_reduce_sum(Tensor) {}
  virtual void all_reduce_max(Tensor) {}
  // local [n, ...] -> full [size * n, ...], in rank order. With one shard `full` and `local` may be the same memory.
  virtual void all_gather(Tensor local, Tensor full);
  // full [size * n, ...] summed over the group, the own part to local [n, ...].
  virtual void reduce_scatter(Tensor full, Tensor local);

  std::int64_t padded_rows(std::int64_t rows) const { return local_rows(rows) * (sequence_parallel() ? size() : 1); }
  std::int64_t local_rows(std::int64_t rows) const { return sequence_parallel() ? divide_up(rows, size()) : rows; }
};

}  // namespace longwave
