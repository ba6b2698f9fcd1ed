// The matrix products of linear layers, by oneDNN. A product is built when its shape is first seen and kept: from the second
// step on nothing is compiled or allocated. Sums are fp32. Operands are plain row-major matrices.
//
// The order of a sum may depend on the number of threads: the same threads give the same bits.
#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor/tensor.h"

namespace longwave {

class MatrixProducts {
 public:
  MatrixProducts();
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  // Whether this processor multiplies bf16, within LONGWAVE_MAX_ISA and ONEDNN_MAX_CPU_ISA. Where it does not, bf16 operands are
  // widened to fp32 copies: the same sums of the same products, slower than fp32 itself.
  static bool has_bf16();

  // x, weight, dy are fp32 or all bf16; y and dx are fp32 or bf16; dweight is fp32 and is added to.
  // Throws Error naming the product and its shape when oneDNN fails.
  void forward(Tensor x, Tensor weight, Tensor y);               // y[R, N] = x[R, K] weight[N, K]^T
  void backward_input(Tensor dy, Tensor weight, Tensor dx);      // dx[R, K] = dy[R, N] weight[N, K]
  void backward_weight(Tensor dy, Tensor x, Tensor dweight);     // dweight[N, K] += dy[R, N]^T x[R, K]

 private:
  struct Implementation;
  std::unique_ptr<Implementation> impl_;
};

}  // namespace longwave
