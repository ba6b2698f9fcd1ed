#include "tests/unit/backend/device_tensor.h"

namespace longwave {

std::unique_ptr<Backend> make_backend_under_test() { return make_cpu_backend(); }

}  // namespace longwave
