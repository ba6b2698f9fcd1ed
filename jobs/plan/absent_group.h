// A tensor group whose other shards are not here: a model gets the shapes and the work of one shard, and exchanges nothing.
// What it computes means nothing; how much memory and time it takes does.
#pragma once

#include "core/model/tensor_group.h"

namespace longwave {

class AbsentGroup final : public TensorGroup {
 public:
  AbsentGroup(int size, bool sequence) : size_(size), sequence_(sequence && size > 1) {}

  int size() const override { return size_; }
  bool sequence_parallel() const override { return sequence_; }
  void all_reduce_sum(Tensor) override {}
  void all_reduce_max(Tensor) override {}
  void all_gather(Tensor, Tensor) override {}
  void reduce_scatter(Tensor, Tensor) override {}

 private:
  int size_;
  bool sequence_;
};

}  // namespace longwave
