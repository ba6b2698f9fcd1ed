// Kernels that are wrong on purpose, one for each mistake that the build under the address sanitizer must end.
#include <gtest/gtest.h>

#include "core/backend/cuda/device.h"
#include "tests/simt/device_memory.h"

namespace longwave {
namespace {

LONGWAVE_KERNEL(32) writes_past_its_own_array(float* data, int at) {
  float own[4] = {};
  own[at] = data[device::thread()];
  data[device::thread()] = own[at & 3];
}

LONGWAVE_KERNEL(32) reads_past_the_allocation(float* data, int at) { data[device::thread()] = data[device::thread() + at]; }

LONGWAVE_KERNEL(32) writes_past_its_shared_memory(float* data, int at) {
  LONGWAVE_SHARED(float, tile, 32);
  tile[device::thread() + at] = data[device::thread()];
}

using Kernel = void (*)(float*, int);

void run(Kernel kernel, int at) {
  const simt::Stream stream;
  const simt::DeviceArray<float> data(stream, std::vector<float>(32));
  launch("wrong", kernel, {}, 32, 0, stream, data.data(), at);
  EXPECT_EQ(stream.wait(), cudaSuccess);
}

TEST(AddressSanitizer, EndsAWritePastAThreadsOwnArray) {
  run(writes_past_its_own_array, 3);
  EXPECT_DEATH(run(writes_past_its_own_array, 4), "stack-buffer-overflow");
}

TEST(AddressSanitizer, EndsAReadPastAnAllocation) {
  run(reads_past_the_allocation, 0);
  EXPECT_DEATH(run(reads_past_the_allocation, 1), "use-after-poison");
}

TEST(AddressSanitizer, EndsAWritePastSharedMemory) {
  run(writes_past_its_shared_memory, 0);
  EXPECT_DEATH(run(writes_past_its_shared_memory, 1), "use-after-poison");
}

}  // namespace
}  // namespace longwave
