// What every Communicator must do, over NCCL and in device memory; and what only this one has to.
#include <gtest/gtest.h>

#include "core/backend/cuda/check.h"
#include "core/backend/cuda/cuda_backend.h"
#include "core/backend/cuda/memory.h"
#include "core/base/error.h"
#include "parallel/device_communicator.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/nccl/nccl_communicator.h"
#include "tests/parallel/communicator_suite.h"
#include "tests/simt/queue.h"

namespace longwave {
namespace {

cudaStream_t compute() {
  static const CudaStream stream;
  return stream.get();
}

Communicator& host() {
  static const std::unique_ptr<Communicator> world = MpiCommunicator::world();
  return *world;
}

CommunicatorUnderTest device_memory(const std::string& name, const NcclLimits& limits) {
  return {name,
          [limits] { return NcclCommunicator::create(host(), compute(), limits); },
          [](std::size_t bytes) { return allocate_cuda(bytes); },
          [](void* data) { cudaFree(data); },
          [](void* to, const void* from, std::size_t bytes) {
            LONGWAVE_CUDA(cudaMemcpyAsync, to, from, bytes, cudaMemcpyHostToDevice, compute());
          },
          [](void* to, const void* from, std::size_t bytes) {
            LONGWAVE_CUDA(cudaMemcpyAsync, to, from, bytes, cudaMemcpyDeviceToHost, compute());
            LONGWAVE_CUDA(cudaStreamSynchronize, compute());
          }};
}

INSTANTIATE_TEST_SUITE_P(Nccl, CommunicatorSuite,
                         testing::Values(device_memory("Whole", {}), device_memory("InPiecesOf1000Bytes", {.piece_bytes = 1000})),
                         [](const auto& instance) { return instance.param.name; });

TEST(NcclStart, EndsWithinItsLimitWhenARankDoesNotCome) {
  if (host().size() == 1) return;
  if (host().rank() == host().size() - 1) {
    ncclUniqueId id{};
    host().broadcast(&id, sizeof id, Element::byte, 0);  // hears of the group, and does not join it
  } else {
    try {
      NcclCommunicator::create(host(), compute(), {.start_seconds = 0.2});
      ADD_FAILURE() << "a group without its last rank was made";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::lost);
      EXPECT_NE(std::string(error.what()).find("not all " + std::to_string(host().size()) + " ranks came"), std::string::npos);
    }
  }
  host().barrier();
}

TEST(NcclLostRank, EndsTheWaitForTheDevice) {
  if (host().size() == 1) return;
  CudaBackend backend(host().rank());
  const std::unique_ptr<Communicator> world = make_device_communicator(host(), backend);
  const std::unique_ptr<Communicator> half = world->split(0, world->rank());
  backend.synchronize();  // all is well so far
  simt::enqueue_step(backend.stream(), [] { return false; });  // as a collective whose peer is gone
  simt::lose_rank_after(3);
  try {
    backend.synchronize();
    ADD_FAILURE() << "the wait ended by itself";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::lost);
    EXPECT_NE(std::string(error.what()).find("a rank or the network was lost"), std::string::npos) << error.what();
  }
  simt::reset();
  host().barrier();
}

TEST(NcclCalls, ThatDoNotMatchAreAnErrorOnEveryRank) {
  if (host().size() == 1) return;
  auto world = NcclCommunicator::create(host(), compute());
  void* data = allocate_cuda(4096);
  // Work may run at once or late, so the call itself may fail or what waits for it.
  EXPECT_THROW(
      {
        world->all_gather(static_cast<char*>(data) + 16 * world->rank(), data, world->rank() == 0 ? 4 : 3, Element::f32);
        LONGWAVE_CUDA(cudaStreamSynchronize, compute());
      },
      Error);
  EXPECT_THROW(world->broadcast(data, 4, Element::f32, 0), Error);
  host().barrier();
  simt::reset();
  cudaFree(data);
}

}  // namespace
}  // namespace longwave
