// Every call of the CUDA runtime and of cuBLASLt is checked. What a user can cure is a configuration error; what the device or
// the driver refuses after that means that the device is lost.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

namespace longwave {

void check_cuda(cudaError_t result, const char* call, const char* file, int line);
void check_blas(cublasStatus_t status, const char* call, const char* file, int line);

}  // namespace longwave

#define LONGWAVE_CUDA(function, ...) ::longwave::check_cuda(function(__VA_ARGS__), #function, __FILE__, __LINE__)
#define LONGWAVE_BLAS(function, ...) ::longwave::check_blas(function(__VA_ARGS__), #function, __FILE__, __LINE__)
