// The bf16 matrix products of linear layers on AMX tiles, for processors that have them. Packing an operand costs little beside
// its product, so plain row-major matrices come in and go out, as for oneDNN, whose products of these shapes are slower.
//
// Each element of the output is summed by one thread, in an order that depends on the shape alone: any number of threads gives
// the same bits.
#pragma once

#include "core/backend/cpu/scratch.h"
#include "core/tensor/tensor.h"

namespace longwave {

class AmxProducts {
 public:
  // Whether this processor has AMX, within LONGWAVE_MAX_ISA, and the product is large enough to be worth its packing.
  static bool takes(const Tensor& left, std::int64_t rows);

  // Operands are bf16; y and dx fp32 or bf16; dweight is fp32 and is added to. Shapes as in MatrixProducts.
  void forward(Tensor x, Tensor weight, Tensor y);            // y[R, N] = x[R, K] weight[N, K]^T
  void backward_input(Tensor dy, Tensor weight, Tensor dx);   // dx[R, K] = dy[R, N] weight[N, K]
  void backward_weight(Tensor dy, Tensor x, Tensor dweight);  // dweight[N, K] += dy[R, N]^T x[R, K]

 private:
  struct Product;
  void run(const Product& product);

  Scratch scratch_;
};

}  // namespace longwave
