// Owners of device memory, pinned host memory, streams and events.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <utility>

namespace longwave {

// Grows when more is asked for, which waits for the device; sizes settle in the first step. `moved` is called when memory given
// out before is gone.
class CudaScratch {
 public:
  explicit CudaScratch(std::function<void()> moved = nullptr) : moved_(std::move(moved)) {}
  ~CudaScratch() { cudaFree(data_); }
  CudaScratch(const CudaScratch&) = delete;
  CudaScratch& operator=(const CudaScratch&) = delete;

  template <class T> T* get(std::size_t count) { return static_cast<T*>(bytes(count * sizeof(T))); }

 private:
  void* bytes(std::size_t wanted);

  std::function<void()> moved_;
  void* data_ = nullptr;
  std::size_t capacity_ = 0;
};

class CudaStream {
 public:
  CudaStream();
  ~CudaStream() { cudaStreamDestroy(stream_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class CudaEvent {
 public:
  explicit CudaEvent(unsigned flags = cudaEventDisableTiming);
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&&) = delete;
  ~CudaEvent() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Throws config_error when the device has no room.
void* allocate_cuda(std::size_t bytes);

}  // namespace longwave
