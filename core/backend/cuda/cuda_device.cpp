#include "core/backend/cuda/cuda_device.h"

#include "core/backend/cuda/attention_choice.h"
#include "core/backend/cuda/check.h"
#include "core/backend/cuda/cuda_backend.h"
#include "core/base/error.h"

namespace longwave {

CudaDevices find_cuda_devices(std::int64_t head_dim) {
  CudaDevices devices;
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaErrorInsufficientDriver) {
    devices.obstacle = "the NVIDIA driver is missing or older than this program's CUDA";
  } else if (result == cudaErrorNoDevice || (result == cudaSuccess && count == 0)) {
    devices.obstacle = "no GPU is visible (see nvidia-smi and CUDA_VISIBLE_DEVICES)";
  } else if (result != cudaSuccess) {
    devices.obstacle = fmt::format("the driver says: {}", cudaGetErrorString(result));
  }
  if (!devices.obstacle.empty()) return devices;
  for (int device = 0; device < count; ++device) {
    char text[32] = {};
    LONGWAVE_CUDA(cudaDeviceGetPCIBusId, text, sizeof text, device);
    cudaDeviceProp properties;
    LONGWAVE_CUDA(cudaGetDeviceProperties, &properties, device);
    devices.gpus.push_back({text, static_cast<double>(properties.totalGlobalMem),
                            cuda::attention_obstacle(head_dim, {properties.major, properties.minor})});
  }
  return devices;
}

std::unique_ptr<Backend> make_cuda_backend(int device) { return std::make_unique<CudaBackend>(device); }

}  // namespace longwave
