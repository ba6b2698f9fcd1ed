// The tensor axis of a mesh as the layers see it (core/model/tensor_group.h).
#pragma once

#include "core/model/tensor_group.h"
#include "parallel/communicator.h"

namespace longwave {

class MeshTensorGroup final : public TensorGroup {
 public:
  // `shards` outlives the group. `sequence` splits norms and the residual stream along the rows.
  MeshTensorGroup(Communicator& shards, bool sequence) : shards_(shards), sequence_(sequence && shards.size() > 1) {}

  int rank() const override { return shards_.rank(); }
  int size() const override { return shards_.size(); }
  bool sequence_parallel() const override { return sequence_; }

  void all_reduce_sum(Tensor tensor) override;
  void all_reduce_max(Tensor tensor) override;
  void all_gather(Tensor local, Tensor full) override;
  void reduce_scatter(Tensor full, Tensor local) override;

 private:
  Communicator& shards_;
  bool sequence_;
};

}  // namespace longwave
