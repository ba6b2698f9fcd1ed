// What stands in for the CUDA backend in a program built without it.
#include "core/backend/cuda/cuda_device.h"
#include "core/base/error.h"

namespace longwave {

CudaDevices find_cuda_devices(std::int64_t) { return {{}, "this program was built without CUDA (cmake -DLONGWAVE_CUDA=ON)", false}; }

std::unique_ptr<Backend> make_cuda_backend(int) { throw config_error("this program was built without CUDA; use run.device=cpu"); }

}  // namespace longwave
