// GPUs as the rest of the program sees them; needs no CUDA headers. A program built without CUDA has none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.h"

namespace longwave {

struct CudaGpu {
  std::string bus_id;    // PCI
  double memory = 0;     // bytes
  std::string obstacle;  // why the model cannot run on it; empty when it can
};

struct CudaDevices {
  std::vector<CudaGpu> gpus;         // the visible ones, by device number
  std::string obstacle;              // why there are none: no driver, no GPU, built without CUDA
  bool built = true;                 // false: built without CUDA
};

// For a model with this head_dim.
CudaDevices find_cuda_devices(std::int64_t head_dim);

// Throws config_error when the device cannot do what the kernels need, or has no memory.
std::unique_ptr<Backend> make_cuda_backend(int device);

}  // namespace longwave
