#include "core/backend/cuda/check.h"

#include "core/base/error.h"

namespace longwave {

void check_cuda(cudaError_t result, const char* call, const char* file, int line) {
  if (result == cudaSuccess) return;
  const bool ours = result == cudaErrorInvalidValue || result == cudaErrorInvalidDevice;
  throw Error(ours ? ExitCode::bug : ExitCode::lost,
              fmt::format("{}: {} ({}) ({}:{})", call, cudaGetErrorString(result), cudaGetErrorName(result), file, line));
}

void check_blas(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ExitCode::bug, fmt::format("{}: {} ({}:{})", call, cublasLtGetStatusString(status), file, line));
}

// Declared in device.h, which the host's sources do not include.
void check_launch(cudaError_t result, const char* kernel);
void check_launch(cudaError_t result, const char* kernel) {
  if (result == cudaSuccess) return;
  throw Error(ExitCode::lost,
              fmt::format("launch of {}: {} ({})", kernel, cudaGetErrorString(result), cudaGetErrorName(result)));
}

}  // namespace longwave
