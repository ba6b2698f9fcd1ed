// Token embedding, vocabulary-parallel: a shard looks up the ids it holds and gives zero rows for the others.
#pragma once

#include "core/model/parameter_store.h"
#include "core/model/shard.h"

namespace longwave {

class Embedding {
 public:
  Embedding(const Shard& shard, ParameterStore& store);

  // ids int32 [rows] -> out [local rows, W]; `partial` [padded rows, W] as in MlpLayer::forward.
  void forward(const Rows& rows, Tensor ids, Tensor partial, Tensor out) const;
  // dout [padded rows, W], gathered.
  void backward(const Rows& rows, Tensor ids, Tensor dout) const;

  std::size_t parameter() const { return table_; }

 private:
  const Shard& shard_;
  ParameterStore& store_;
  std::size_t table_;
};

}  // namespace longwave
