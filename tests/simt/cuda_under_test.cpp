#include "core/backend/cuda/cuda_device.h"
#include "tests/unit/backend/device_tensor.h"

namespace longwave {

std::unique_ptr<Backend> make_backend_under_test() { return make_cuda_backend(0); }

}  // namespace longwave
