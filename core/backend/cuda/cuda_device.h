// GPUs as the rest of the program sees them; needs no CUDA headers. A program built without CUDA has none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.h"

namespace longwave {

struct CudaDevices {
  std::vector<std::string> bus_ids;  // PCI, of every visible GPU, by device number
  std::string obstacle;              // why there are none: no driver, no GPU, built without CUDA
  bool built = true;                 // false: built without CUDA
};

CudaDevices find_cuda_devices();

// Throws config_error when the device cannot do what the kernels need, or has no memory.
std::unique_ptr<Backend> make_cuda_backend(int device);

}  // namespace longwave
