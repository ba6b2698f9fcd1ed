// The emulated streams: work may be late, so what is not ordered by an event or a wait is seen to be missing.
#include <gtest/gtest.h>

#include "tests/simt/access.h"
#include "tests/simt/device_memory.h"
#include "tests/simt/queue.h"

namespace longwave::simt {
namespace {

class Streams : public testing::Test {
 protected:
  ~Streams() override { reset(); }

  Stream first_, second_;
};

TEST_F(Streams, RunNothingUntilSomebodyWaits) {
  int steps = 0;
  enqueue_step(first_, [&] { return ++steps > 0; });
  EXPECT_EQ(steps, 0);
  EXPECT_EQ(first_.wait(), cudaSuccess);
  EXPECT_EQ(steps, 1);
}

TEST_F(Streams, AnEventOrdersOneAfterTheOther) {
  std::vector<int> order;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  enqueue_step(first_, [&] { return order.push_back(1), true; });
  ASSERT_EQ(cudaEventRecord(event, first_), cudaSuccess);
  enqueue_step(first_, [&] { return order.push_back(3), true; });
  ASSERT_EQ(cudaStreamWaitEvent(second_, event), cudaSuccess);
  enqueue_step(second_, [&] { return order.push_back(2), true; });
  EXPECT_EQ(second_.wait(), cudaSuccess);
  EXPECT_EQ(order[0], 1);
  EXPECT_EQ(first_.wait(), cudaSuccess);
  EXPECT_EQ(order.size(), 3u);
  cudaEventDestroy(event);
}

TEST_F(Streams, WithoutAnEventTheOtherStreamsWorkIsMissing) {
  const DeviceArray<int> data(1);
  const int value = 5;
  ASSERT_EQ(cudaMemcpyAsync(data.data(), &value, sizeof value, cudaMemcpyHostToDevice, first_), cudaSuccess);
  EXPECT_NE(data.read(second_)[0], 5);
  EXPECT_EQ(first_.wait(), cudaSuccess);
  EXPECT_EQ(data.read(second_)[0], 5);
}

TEST_F(Streams, PageableMemoryIsReadAtOnceAndPinnedMemoryLater) {
  const DeviceArray<int> data(2);
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
  int pageable = 1;
  *static_cast<int*>(pinned) = 1;
  ASSERT_EQ(cudaMemcpyAsync(data.data(), &pageable, sizeof(int), cudaMemcpyHostToDevice, first_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(data.data() + 1, pinned, sizeof(int), cudaMemcpyHostToDevice, first_), cudaSuccess);
  pageable = *static_cast<int*>(pinned) = 2;
  EXPECT_EQ(data.read(first_), (std::vector<int>{1, 2}));
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(Streams, CopiesStayInsideTheirAllocations) {
  const DeviceArray<int> data(4);
  const std::vector<int> five(5);
  EXPECT_EQ(cudaMemcpyAsync(data.data(), five.data(), 5 * sizeof(int), cudaMemcpyHostToDevice, first_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(data.data(), five.data(), 4, cudaMemcpyDeviceToDevice, first_), cudaErrorInvalidValue);
}

TEST_F(Streams, WaitingForAnEventNobodyRecordsIsAnErrorAndNotAHang) {
  enqueue_step(first_, [] { return false; });
  EXPECT_EQ(first_.wait(), cudaErrorLaunchFailure);
}

TEST(DeviceMemory, CountsWhatIsUsedAndItsPeak) {
  const std::size_t before = device_bytes();
  {
    const DeviceArray<char> block(1000);
    EXPECT_EQ(device_bytes(), before + 1000);
  }
  EXPECT_EQ(device_bytes(), before);
  EXPECT_GE(device_peak_bytes(), before + 1000);
}

}  // namespace
}  // namespace longwave::simt
