// The products of an MLP with SwiGLU on AMX tiles. SwiGLU takes what a product has just written while it is in the first cache,
// instead of reading it back from memory; results are those of the product and the activation one after the other, bit by bit.
#pragma once

#include "core/backend/cpu/scratch.h"
#include "core/tensor/tensor.h"

namespace longwave {

class AmxSwiGlu {
 public:
  // Whether AmxProducts takes the product and it can end in SwiGLU: hidden in whole blocks, a depth summed in one go.
  static bool takes(const Tensor& left, std::int64_t rows, std::int64_t hidden);

  // All bf16. gate_up[R, 2F] = x[R, K] weight[2F, K]^T, hidden[R, F] = silu(gate) up.
  void forward(Tensor x, Tensor weight, Tensor gate_up, Tensor hidden);
  // dhidden[R, F] = dy[R, N] weight[N, F], which is not kept; gate_up becomes its own gradient.
  void backward(Tensor dy, Tensor weight, Tensor gate_up);

 private:
  struct Product;
  void run(const Product& product);

  Scratch scratch_;
};

}  // namespace longwave
