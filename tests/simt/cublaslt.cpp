#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <iterator>
#include <vector>

#include "tests/simt/access.h"
#include "tests/simt/block.h"
#include "tests/simt/counters.h"
#include "tests/simt/queue.h"

struct SimtBlas {};
struct SimtPreference {
  std::size_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // of a, b, c, d, in bytes
};
struct SimtMatmul {
  bool transposed_a = false, transposed_b = false;
};
struct SimtMatrix {
  cudaDataType_t type;
  std::int64_t rows, columns, leading;

  std::size_t bytes() const {
    const std::size_t size = type == CUDA_R_16BF ? 2 : 4;
    return columns == 0 || rows == 0 ? 0 : static_cast<std::size_t>((columns - 1) * leading + rows) * size;
  }
  float get(const void* data, std::int64_t row, std::int64_t column) const {
    const std::int64_t at = column * leading + row;
    if (type == CUDA_R_32F) return static_cast<const float*>(data)[at];
    return std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(data)[at]) << 16);
  }
  void set(void* data, std::int64_t row, std::int64_t column, float value) const {
    const std::int64_t at = column * leading + row;
    if (type == CUDA_R_32F) {
      static_cast<float*>(data)[at] = value;
    } else {
      static_cast<std::uint16_t*>(data)[at] = longwave::simt::round_to_bf16(value);
    }
  }
};

namespace {

struct Product {
  SimtMatmul matmul;
  SimtMatrix a, b, d;
  const void* a_data;
  const void* b_data;
  void* d_data;
  float alpha, beta;
  std::int64_t m, n, k;
};

// d = alpha op(a) op(b) + beta d. The column of b goes over the columns of op(a), which the compiler can vectorise.
void multiply(const Product& p) {
  std::vector<float> left(static_cast<std::size_t>(p.m * p.k));  // op(a), column-major
  for (std::int64_t l = 0; l < p.k; ++l) {
    for (std::int64_t i = 0; i < p.m; ++i) {
      left[static_cast<std::size_t>(l * p.m + i)] = p.matmul.transposed_a ? p.a.get(p.a_data, l, i) : p.a.get(p.a_data, i, l);
    }
  }
  std::vector<float> sums(static_cast<std::size_t>(p.m));
  for (std::int64_t j = 0; j < p.n; ++j) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (std::int64_t l = 0; l < p.k; ++l) {
      const float factor = p.matmul.transposed_b ? p.b.get(p.b_data, j, l) : p.b.get(p.b_data, l, j);
      const float* const column = left.data() + l * p.m;
      for (std::int64_t i = 0; i < p.m; ++i) sums[static_cast<std::size_t>(i)] += column[i] * factor;
    }
    for (std::int64_t i = 0; i < p.m; ++i) {
      const float old = p.beta == 0 ? 0 : p.beta * p.d.get(p.d_data, i, j);
      p.d.set(p.d_data, i, j, p.alpha * sums[static_cast<std::size_t>(i)] + old);
    }
  }
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_INVALID_VALUE: return "invalid value";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "not supported";
  }
  return "?";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new SimtBlas;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* matmul, cublasComputeType_t, cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *matmul = new SimtMatmul;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmul) {
  delete matmul;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmul, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  if (bytes != sizeof(cublasOperation_t)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool transposed = *static_cast<const cublasOperation_t*>(value) == CUBLAS_OP_T;
  (attribute == CUBLASLT_MATMUL_DESC_TRANSA ? matmul->transposed_a : matmul->transposed_b) = transposed;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  if (leading < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new SimtMatrix{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new SimtPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) {
    if (bytes != sizeof(std::uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
    preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] = *static_cast<const std::uint32_t*>(value);
    return CUBLAS_STATUS_SUCCESS;
  }
  if (bytes != sizeof(std::size_t)) return CUBLAS_STATUS_INVALID_VALUE;
  preference->workspace = *static_cast<const std::size_t*>(value);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  if (wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  ++longwave::simt::counters().searches;
  results[0] = {{}, preference->workspace, CUBLAS_STATUS_SUCCESS};  // asks for all it may, to see that it gets it
  std::copy(std::begin(preference->alignment), std::end(preference->alignment), results[0].algo.data);
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t matmul, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  using longwave::simt::inside_allocation;
  Product p = {*matmul, *a_layout, *b_layout, *d_layout, a, b, d, *static_cast<const float*>(alpha),
               *static_cast<const float*>(beta), d_layout->rows, d_layout->columns, 0};
  p.k = matmul->transposed_a ? a_layout->rows : a_layout->columns;
  const bool meet = (matmul->transposed_a ? a_layout->columns : a_layout->rows) == p.m &&
                    (matmul->transposed_b ? b_layout->columns : b_layout->rows) == p.k &&
                    (matmul->transposed_b ? b_layout->rows : b_layout->columns) == p.n && c == d &&
                    c_layout->type == d_layout->type && a_layout->type == b_layout->type;
  if (!meet || !inside_allocation(a, p.a.bytes()) || !inside_allocation(b, p.b.bytes()) || !inside_allocation(d, p.d.bytes()) ||
      (workspace_bytes > 0 && !inside_allocation(workspace, workspace_bytes))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // An algorithm was chosen for operands at such addresses.
  const void* const operands[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    if (reinterpret_cast<std::uintptr_t>(operands[i]) % algorithm->data[i] == 0) continue;
    std::fprintf(stderr, "simt: cublasLtMatmul: %c is at %p, but its algorithm is for multiples of %d bytes\n", "abcd"[i],
                 operands[i], static_cast<int>(algorithm->data[i]));
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  longwave::simt::enqueue_step(stream, [p] {
    using longwave::simt::open_device, longwave::simt::still_allocated;
    if (still_allocated(p.a_data, p.a.bytes()) && still_allocated(p.b_data, p.b.bytes()) &&
        still_allocated(p.d_data, p.d.bytes())) {
      open_device();
      multiply(p);
    }
    return true;
  });
  return CUBLAS_STATUS_SUCCESS;
}
