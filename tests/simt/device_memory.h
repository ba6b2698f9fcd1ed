// Device memory and a stream for tests of single kernels.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <vector>

namespace longwave::simt {

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  cudaError_t wait() const { return cudaStreamSynchronize(stream_); }

 private:
  cudaStream_t stream_ = nullptr;
};

template <class T> class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    void* pointer = nullptr;
    EXPECT_EQ(cudaMalloc(&pointer, count * sizeof(T)), cudaSuccess);
    data_ = static_cast<T*>(pointer);
  }
  DeviceArray(cudaStream_t stream, const std::vector<T>& values) : DeviceArray(values.size()) {
    EXPECT_EQ(cudaMemcpyAsync(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice, stream), cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::vector<T> read(cudaStream_t stream) const {
    std::vector<T> host(count_);
    EXPECT_EQ(cudaMemcpyAsync(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost, stream), cudaSuccess);
    return host;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

}  // namespace longwave::simt
