// Capture and graphs of the emulated runtime: what is recorded runs at every launch and not before, and what the runtime does
// not permit in a capture is an error here too.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "core/backend/cuda/device.h"
#include "tests/simt/block.h"
#include "tests/simt/counters.h"
#include "tests/simt/device_memory.h"
#include "tests/simt/queue.h"

namespace longwave::simt {
namespace {

LONGWAVE_KERNEL(32) add_kernel(int* to, int value) {
  if (device::thread() == 0) *to += value;
}

class Graphs : public testing::Test {
 protected:
  Graphs() {
    EXPECT_EQ(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&join_, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaMallocHost(&pinned_, sizeof(int)), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(data_.data(), 0, 4 * sizeof(int), first_), cudaSuccess);
    EXPECT_EQ(first_.wait(), cudaSuccess);
  }
  ~Graphs() override {
    reset();
    cudaFreeHost(pinned_);
    cudaEventDestroy(fork_);
    cudaEventDestroy(join_);
  }

  void begin() const { ASSERT_EQ(cudaStreamBeginCapture(first_, cudaStreamCaptureModeThreadLocal), cudaSuccess); }
  cudaGraphExec_t end() const {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(first_, &graph), cudaSuccess);
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return executable;
  }
  cudaError_t end_of_broken() const {
    cudaGraph_t graph = nullptr;
    const cudaError_t result = cudaStreamEndCapture(first_, &graph);
    EXPECT_EQ(graph, nullptr);
    return result;
  }
  void add(const Stream& stream, int* to, int value) const { launch("add", add_kernel, {}, 32, 0, stream, to, value); }
  void fork() const {
    ASSERT_EQ(cudaEventRecord(fork_, first_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(second_, fork_), cudaSuccess);
  }
  void join() const {
    ASSERT_EQ(cudaEventRecord(join_, second_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(first_, join_), cudaSuccess);
  }

  Stream first_, second_;
  cudaEvent_t fork_ = nullptr, join_ = nullptr;
  void* pinned_ = nullptr;
  DeviceArray<int> data_{4};
};

TEST_F(Graphs, RunAtEveryLaunchAndNotInTheCapture) {
  begin();
  for (int value = 1; value <= 3; ++value) add(first_, data_.data(), value);  // each with the argument that it had
  const cudaGraphExec_t graph = end();
  EXPECT_EQ(data_.read(first_)[0], 0);
  counters() = {};
  EXPECT_EQ(cudaGraphLaunch(graph, first_), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(graph, first_), cudaSuccess);
  EXPECT_EQ(counters().queued, 0);
  EXPECT_EQ(counters().graph_launches, 2);
  EXPECT_EQ(data_.read(first_)[0], 12);
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(Graphs, CopyWhatPinnedMemoryHoldsAtTheLaunch) {
  *static_cast<int*>(pinned_) = 1;
  begin();
  ASSERT_EQ(cudaMemsetAsync(data_.data(), 0, 2 * sizeof(int), first_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(data_.data(), pinned_, sizeof(int), cudaMemcpyHostToDevice, first_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(data_.data() + 1, data_.data(), sizeof(int), cudaMemcpyDeviceToDevice, first_), cudaSuccess);
  const cudaGraphExec_t graph = end();
  *static_cast<int*>(pinned_) = 7;
  EXPECT_EQ(cudaGraphLaunch(graph, first_), cudaSuccess);
  const std::vector<int> read = data_.read(first_);
  EXPECT_EQ(read[0], 7);
  EXPECT_EQ(read[1], 7);
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(Graphs, ForkAndJoinOverEvents) {
  begin();
  add(first_, data_.data(), 1);
  fork();
  ASSERT_EQ(cudaMemcpyAsync(data_.data() + 1, data_.data(), sizeof(int), cudaMemcpyDeviceToDevice, second_), cudaSuccess);
  join();
  ASSERT_EQ(cudaMemcpyAsync(data_.data() + 2, data_.data() + 1, sizeof(int), cudaMemcpyDeviceToDevice, first_), cudaSuccess);
  const cudaGraphExec_t graph = end();
  for (int launches = 1; launches <= 2; ++launches) {
    EXPECT_EQ(cudaGraphLaunch(graph, first_), cudaSuccess);
    EXPECT_EQ(data_.read(first_)[2], launches);
  }
  // The streams are free again, and so are the events.
  fork();
  add(second_, data_.data() + 3, 5);
  join();
  EXPECT_EQ(data_.read(first_)[3], 5);
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(Graphs, WithoutAnEventTheBranchsWorkIsMissing) {
  begin();
  fork();
  add(second_, data_.data(), 1);
  ASSERT_EQ(cudaMemcpyAsync(data_.data() + 1, data_.data(), sizeof(int), cudaMemcpyDeviceToDevice, first_), cudaSuccess);
  join();
  const cudaGraphExec_t graph = end();
  for (int launches = 1; launches <= 2; ++launches) {
    EXPECT_EQ(cudaGraphLaunch(graph, first_), cudaSuccess);
    const std::vector<int> read = data_.read(first_);
    EXPECT_EQ(read[0], launches);
    EXPECT_EQ(read[1], launches - 1);
  }
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(Graphs, GiveEveryLaunchACopyOfAStepAndHoldItsCommunicator) {
  int runs = 0;
  begin();
  enqueue_step(first_, [&runs, left = 2]() mutable { return ++runs, --left == 0; }, &runs);
  const cudaGraphExec_t graph = end();
  for (int launch = 0; launch < 3; ++launch) EXPECT_EQ(cudaGraphLaunch(graph, first_), cudaSuccess);
  EXPECT_EQ(first_.wait(), cudaSuccess);
  EXPECT_EQ(runs, 6);
  EXPECT_TRUE(graphs_hold(&runs));
  EXPECT_FALSE(graphs_hold(&graph));
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  EXPECT_FALSE(graphs_hold(&runs));
}

TEST_F(Graphs, TimeWithExternalEvents) {
  cudaEvent_t from = nullptr, to = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&from, cudaEventDefault), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&to, cudaEventDefault), cudaSuccess);
  EXPECT_EQ(cudaEventRecordWithFlags(from, first_, cudaEventRecordExternal), cudaErrorInvalidValue);
  begin();
  ASSERT_EQ(cudaEventRecordWithFlags(from, first_, cudaEventRecordExternal), cudaSuccess);
  add(first_, data_.data(), 1);
  ASSERT_EQ(cudaEventRecordWithFlags(to, first_, cudaEventRecordExternal), cudaSuccess);
  const cudaGraphExec_t graph = end();
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, from, to), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGraphLaunch(graph, first_), cudaSuccess);
  EXPECT_EQ(first_.wait(), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, from, to), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  // An event of the capture alone stands for an order, not for a time.
  begin();
  ASSERT_EQ(cudaEventRecord(from, first_), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(end()), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, from, to), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventQuery(from), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaStreamWaitEvent(second_, from), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  cudaEventDestroy(from);
  cudaEventDestroy(to);
}

TEST_F(Graphs, CountTheirOperations) {
  begin();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  EXPECT_EQ(cudaStreamIsCapturing(second_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  fork();
  EXPECT_EQ(cudaStreamIsCapturing(second_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  add(first_, data_.data(), 1);
  add(second_, data_.data() + 1, 1);
  join();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(first_, &graph), cudaSuccess);
  std::size_t count = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(cudaStreamIsCapturing(second_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

// What the runtime does not permit: the call fails, what follows in the capture too, and there is no graph.
TEST_F(Graphs, RefuseInACapture) {
  const auto pageable = std::make_unique<int>(1);
  void* memory = nullptr;
  const std::pair<const char*, std::function<cudaError_t()>> calls[] = {
      {"cudaMalloc", [&] { return cudaMalloc(&memory, 4); }},
      {"cudaFree", [&] { return cudaFree(data_.data()); }},
      {"cudaMallocHost", [&] { return cudaMallocHost(&memory, 4); }},
      {"cudaFreeHost", [&] { return cudaFreeHost(pinned_); }},
      {"cudaStreamSynchronize", [&] { return first_.wait(); }},
      {"cudaEventQuery", [&] { return cudaEventQuery(join_); }},
      {"cudaEventSynchronize", [&] { return cudaEventSynchronize(join_); }},
      {"a copy from pageable memory",
       [&] { return cudaMemcpyAsync(data_.data(), pageable.get(), 4, cudaMemcpyHostToDevice, first_); }},
      {"a copy to pageable memory",
       [&] { return cudaMemcpyAsync(pageable.get(), data_.data(), 4, cudaMemcpyDeviceToHost, first_); }}};
  for (const auto& [name, call] : calls) {
    begin();
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported) << name;
    EXPECT_EQ(cudaMemsetAsync(data_.data(), 0, 4, first_), cudaErrorStreamCaptureInvalidated) << name;
    EXPECT_EQ(cudaEventRecord(fork_, first_), cudaErrorStreamCaptureInvalidated) << name;
    EXPECT_EQ(end_of_broken(), cudaErrorStreamCaptureInvalidated) << name;
  }
  // None of them did anything, and the stream works on.
  add(first_, data_.data(), 3);
  EXPECT_EQ(data_.read(first_)[0], 3);
}

TEST_F(Graphs, RefuseABranchThatIsNotJoined) {
  begin();
  fork();
  add(second_, data_.data(), 1);
  EXPECT_EQ(end_of_broken(), cudaErrorStreamCaptureUnjoined);
  begin();
  fork();
  join();
  add(second_, data_.data(), 1);  // after the join
  EXPECT_EQ(end_of_broken(), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(data_.read(second_)[0], 0);
}

TEST_F(Graphs, RefuseToWaitForWhatCameBefore) {
  ASSERT_EQ(cudaEventRecord(join_, second_), cudaSuccess);
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(first_, join_), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(end_of_broken(), cudaErrorStreamCaptureInvalidated);
}

TEST_F(Graphs, EndOnTheirOwnStream) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(first_, &graph), cudaErrorInvalidValue);
  begin();
  EXPECT_EQ(cudaStreamBeginCapture(first_, cudaStreamCaptureModeThreadLocal), cudaErrorStreamCaptureUnsupported);
  fork();
  EXPECT_EQ(cudaStreamEndCapture(second_, &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(end_of_broken(), cudaErrorStreamCaptureInvalidated);
}

TEST_F(Graphs, FailWhereTheirMemoryWasFreed) {
  const auto freed = std::make_unique<DeviceArray<int>>(4);
  begin();
  ASSERT_EQ(cudaMemsetAsync(freed->data(), 0, 4, first_), cudaSuccess);
  const cudaGraphExec_t graph = end();
  cudaFree(freed->data());
  EXPECT_EQ(cudaGraphLaunch(graph, first_), cudaSuccess);
  EXPECT_EQ(first_.wait(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
}

TEST_F(Graphs, MayBeDestroyedBeforeTheyHaveRun) {
  begin();
  fork();
  add(second_, data_.data(), 1);
  join();
  const cudaGraphExec_t graph = end();
  EXPECT_EQ(cudaGraphLaunch(graph, first_), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(graph), cudaSuccess);
  EXPECT_EQ(data_.read(first_)[0], 1);
}

}  // namespace
}  // namespace longwave::simt
