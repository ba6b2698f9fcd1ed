#include "core/backend/cuda/matrix_products.h"

#include <compare>
#include <map>

#include "core/backend/cuda/check.h"
#include "core/backend/cuda/memory.h"
#include "core/base/error.h"

namespace longwave {
namespace {

// NVIDIA's advice for Hopper; smaller GPUs want less and are not hurt.
constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

// Row-major out[m, n] (+)= left[m, k] right[k, n]. A transposed operand is stored the other way round. cuBLASLt is
// column-major, where the same memory is the transpose, so it is asked for out^T = right^T left^T.
struct Product {
  std::int64_t m, n, k;
  DType operands, out;
  bool left_transposed, right_transposed, accumulates;

  auto operator<=>(const Product&) const = default;
};

cudaDataType_t type_of(DType dtype) {
  LONGWAVE_CHECK(dtype == DType::bf16 || dtype == DType::f32, "matrix of {}", name_of(dtype));
  return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

// A product ready to run; only the pointers change from call to call.
struct Ready {
  cublasLtMatmulDesc_t matmul = nullptr;
  cublasLtMatrixLayout_t left = nullptr, right = nullptr, out = nullptr;
  cublasLtMatmulHeuristicResult_t choice{};

  Ready(cublasLtHandle_t handle, const Product& product) {
    LONGWAVE_BLAS(cublasLtMatmulDescCreate, &matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t right_operation = product.right_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t left_operation = product.left_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    LONGWAVE_BLAS(cublasLtMatmulDescSetAttribute, matmul, CUBLASLT_MATMUL_DESC_TRANSA, &right_operation, sizeof right_operation);
    LONGWAVE_BLAS(cublasLtMatmulDescSetAttribute, matmul, CUBLASLT_MATMUL_DESC_TRANSB, &left_operation, sizeof left_operation);
    create_layout(right, product.operands, product.k, product.n, product.right_transposed);
    create_layout(left, product.operands, product.m, product.k, product.left_transposed);
    create_layout(out, product.out, product.m, product.n, false);
    choose(handle);
  }
  ~Ready() {
    cublasLtMatrixLayoutDestroy(left);
    cublasLtMatrixLayoutDestroy(right);
    cublasLtMatrixLayoutDestroy(out);
    cublasLtMatmulDescDestroy(matmul);
  }
  Ready(const Ready&) = delete;
  Ready& operator=(const Ready&) = delete;

 private:
  // Row-major [rows, columns], or stored transposed as [columns, rows], as a column-major matrix.
  static void create_layout(cublasLtMatrixLayout_t& layout, DType dtype, std::int64_t rows, std::int64_t columns, bool transposed) {
    if (transposed) std::swap(rows, columns);
    LONGWAVE_BLAS(cublasLtMatrixLayoutCreate, &layout, type_of(dtype), static_cast<std::uint64_t>(columns),
                  static_cast<std::uint64_t>(rows), columns);
  }

  void choose(cublasLtHandle_t handle) {
    cublasLtMatmulPreference_t preference = nullptr;
    LONGWAVE_BLAS(cublasLtMatmulPreferenceCreate, &preference);
    const std::size_t limit = workspace_bytes;
    LONGWAVE_BLAS(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit,
                  sizeof limit);
    // Unless told, cuBLASLt counts on 256 bytes; weights in their flat range and chunks of rows begin at multiples of less.
    const std::uint32_t alignment = 16;
    for (const auto operand : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      LONGWAVE_BLAS(cublasLtMatmulPreferenceSetAttribute, preference, operand, &alignment, sizeof alignment);
    }
    int found = 0;
    LONGWAVE_BLAS(cublasLtMatmulAlgoGetHeuristic, handle, matmul, right, left, out, out, preference, 1, &choice, &found);
    LONGWAVE_BLAS(cublasLtMatmulPreferenceDestroy, preference);
    LONGWAVE_CHECK(found == 1, "cuBLASLt has no algorithm for this product");
  }
};

struct Layer {
  std::int64_t rows, outputs, inputs;
};

Layer check_layer(const Tensor& outputs, const Tensor& weight, const Tensor& inputs) {
  const Layer layer = {outputs.shape[0], weight.shape[0], weight.shape[1]};
  LONGWAVE_CHECK(outputs.shape == (Shape{layer.rows, layer.outputs}) && inputs.shape == (Shape{layer.rows, layer.inputs}),
                 "[{}, {}] = [{}, {}] x [{}, {}]^T", outputs.shape[0], outputs.shape[1], inputs.shape[0], inputs.shape[1],
                 weight.shape[0], weight.shape[1]);
  return layer;
}

}  // namespace

struct CudaMatrixProducts::Implementation {
  cublasLtHandle_t handle = nullptr;
  CudaScratch memory;
  void* workspace = nullptr;
  std::map<Product, Ready> products;

  void run(cudaStream_t stream, const Product& product, const Tensor& left, const Tensor& right, const Tensor& out) {
    LONGWAVE_CHECK(left.dtype == right.dtype, "operands are {} and {}", name_of(left.dtype), name_of(right.dtype));
    if (product.m == 0 || product.n == 0 || product.k == 0) return;
    auto found = products.find(product);
    if (found == products.end()) {
      found = products.emplace(std::piecewise_construct, std::forward_as_tuple(product), std::forward_as_tuple(handle, product)).first;
    }
    const Ready& ready = found->second;
    const float alpha = 1, beta = product.accumulates ? 1 : 0;
    LONGWAVE_BLAS(cublasLtMatmul, handle, ready.matmul, &alpha, right.data, ready.right, left.data, ready.left, &beta, out.data,
                  ready.out, out.data, ready.out, &ready.choice.algo, workspace, workspace_bytes, stream);
  }
};

CudaMatrixProducts::CudaMatrixProducts() : impl_(std::make_unique<Implementation>()) {
  LONGWAVE_BLAS(cublasLtCreate, &impl_->handle);
  impl_->workspace = impl_->memory.get<char>(workspace_bytes);
}

CudaMatrixProducts::~CudaMatrixProducts() {
  impl_->products.clear();
  cublasLtDestroy(impl_->handle);
}

void CudaMatrixProducts::forward(cudaStream_t stream, Tensor x, Tensor weight, Tensor y) {
  const Layer layer = check_layer(y, weight, x);
  impl_->run(stream, {layer.rows, layer.outputs, layer.inputs, x.dtype, y.dtype, false, true, false}, x, weight, y);
}

void CudaMatrixProducts::backward_input(cudaStream_t stream, Tensor dy, Tensor weight, Tensor dx) {
  const Layer layer = check_layer(dy, weight, dx);
  impl_->run(stream, {layer.rows, layer.inputs, layer.outputs, dy.dtype, dx.dtype, false, false, false}, dy, weight, dx);
}

void CudaMatrixProducts::backward_weight(cudaStream_t stream, Tensor dy, Tensor x, Tensor dweight) {
  const Layer layer = check_layer(dy, dweight, x);
  LONGWAVE_CHECK(dweight.dtype == DType::f32);
  impl_->run(stream, {layer.outputs, layer.inputs, layer.rows, dy.dtype, DType::f32, true, false, true}, dy, x, dweight);
}

}  // namespace longwave
