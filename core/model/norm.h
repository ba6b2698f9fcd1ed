// RMSNorm (Zhang and Sennrich, arXiv 1910.07467) before a branch, fused with the addition that ends the branch before it.
#pragma once

#include "core/model/parameter_store.h"
#include "core/model/shard.h"

namespace longwave {

struct NormActivations {
  Tensor input;   // [local rows, W]: the residual stream here
  Tensor rstd;    // fp32 [local rows]
  Tensor output;  // [local rows, W]
};

class Norm {
 public:
  Norm(const Shard& shard, ParameterStore& store, const std::string& name);

  // output = norm(input)
  void forward(const NormActivations& saved) const;
  // input += residual, then output = norm(input)
  void add_forward(Tensor residual, const NormActivations& saved) const;
  // gradient [local rows, W] += the norm's, through doutput
  void backward(Tensor doutput, const NormActivations& saved, Tensor gradient) const;

 private:
  const Shard& shard_;
  ParameterStore& store_;
  std::size_t gain_;
};

}  // namespace longwave
