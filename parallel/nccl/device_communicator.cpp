#include "parallel/device_communicator.h"

#include "core/backend/cuda/cuda_backend.h"
#include "core/backend/profile/profiling_backend.h"
#include "parallel/nccl/nccl_communicator.h"

namespace longwave {

std::unique_ptr<Communicator> make_device_communicator(Communicator& host, Backend& backend) {
  auto* const profiling = dynamic_cast<ProfilingBackend*>(&backend);
  auto* const cuda = dynamic_cast<CudaBackend*>(profiling != nullptr ? &profiling->inner() : &backend);
  if (cuda == nullptr) return nullptr;
  std::unique_ptr<NcclCommunicator> made = NcclCommunicator::create(host, cuda->stream(), {}, [cuda] { cuda->forget_record(); });
  cuda->watch([groups = made->groups()] {
    for (NcclCommunicator* group : *groups) group->throw_if_lost();
  });
  return made;
}

}  // namespace longwave
