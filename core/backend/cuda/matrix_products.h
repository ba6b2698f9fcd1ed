// The matrix products of linear layers by cuBLASLt: fp32 sums, the algorithm of a shape chosen once.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "core/tensor/tensor.h"

namespace longwave {

class CudaMatrixProducts {
 public:
  CudaMatrixProducts();
  ~CudaMatrixProducts();
  CudaMatrixProducts(const CudaMatrixProducts&) = delete;
  CudaMatrixProducts& operator=(const CudaMatrixProducts&) = delete;

  // The three products of backend.h.
  void forward(cudaStream_t stream, Tensor x, Tensor weight, Tensor y);
  void backward_input(cudaStream_t stream, Tensor dy, Tensor weight, Tensor dx);
  void backward_weight(cudaStream_t stream, Tensor dy, Tensor x, Tensor dweight);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> impl_;
};

}  // namespace longwave
