#include "parallel/device_communicator.h"

#include "core/backend/cuda/cuda_backend.h"
#include "parallel/nccl/nccl_communicator.h"

namespace longwave {

std::unique_ptr<Communicator> make_device_communicator(Communicator& host, Backend& backend) {
  const auto* cuda = dynamic_cast<const CudaBackend*>(&backend);
  if (cuda == nullptr) return nullptr;
  return NcclCommunicator::create(host, cuda->stream());
}

}  // namespace longwave
