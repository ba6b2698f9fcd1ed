// SwiGLU MLP (Shazeer, arXiv 2002.05202): down(silu(gate(x)) * up(x)). Gate and up are one column-parallel product, down is
// row-parallel.
#pragma once

#include "core/model/parameter_store.h"
#include "core/model/shard.h"

namespace longwave {

struct MlpActivations {
  Tensor input;    // [padded rows, W]: normed, gathered
  Tensor gate_up;  // [rows, 2F]
  Tensor hidden;   // [rows, F]
};

struct MlpWorkspace {
  Tensor dhidden;  // [rows, F]
  Tensor partial;  // [padded rows, W]: this shard's part of a sum
};

class MlpLayer {
 public:
  MlpLayer(const Shard& shard, ParameterStore& store, const std::string& prefix);

  void plan(Arena& arena, const Rows& rows, MlpActivations& saved) const;
  // branch [local rows, W] = MLP(saved.input); `partial` is where the shard's part is computed (branch itself when unsplit).
  void forward(const Rows& rows, const MlpActivations& saved, Tensor partial, Tensor branch) const;
  // dbranch [padded rows, W], gathered -> dinput [local rows, W]. Overwrites saved.gate_up.
  void backward(const Rows& rows, Tensor dbranch, const MlpActivations& saved, const MlpWorkspace& work, Tensor dinput) const;

 private:
  const Shard& shard_;
  ParameterStore& store_;
  std::size_t gate_;  // up follows
  std::size_t down_;
};

}  // namespace longwave
