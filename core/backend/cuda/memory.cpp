#include "core/backend/cuda/memory.h"

#include "core/backend/cuda/check.h"
#include "core/base/error.h"

namespace longwave {

void* CudaScratch::bytes(std::size_t wanted) {
  if (wanted > capacity_) {
    if (data_ != nullptr) {
      LONGWAVE_CUDA(cudaFree, std::exchange(data_, nullptr));
      capacity_ = 0;
      if (moved_) moved_();
    }
    data_ = allocate_cuda(wanted);
    capacity_ = wanted;
  }
  return data_;
}

CudaStream::CudaStream() { LONGWAVE_CUDA(cudaStreamCreateWithFlags, &stream_, cudaStreamNonBlocking); }
CudaEvent::CudaEvent(unsigned flags) { LONGWAVE_CUDA(cudaEventCreateWithFlags, &event_, flags); }

void* allocate_cuda(std::size_t bytes) {
  void* pointer = nullptr;
  const cudaError_t result = cudaMalloc(&pointer, bytes > 0 ? bytes : 1);
  if (result == cudaErrorMemoryAllocation) {
    throw config_error("no device memory: {} bytes ({:.1f} GiB) were refused; use a smaller model or micro-batch, or more GPUs",
                       bytes, static_cast<double>(bytes) / (1 << 30));
  }
  check_cuda(result, "cudaMalloc", __FILE__, __LINE__);
  return pointer;
}

}  // namespace longwave
