// Kernels that are wrong on purpose, one for each mistake the emulator must see. A line that must be named in the report
// carries the word of its test in a comment; the test looks the line up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "core/backend/cuda/device.h"
#include "tests/simt/block.h"
#include "tests/simt/device_memory.h"
#include "tests/simt/queue.h"

namespace longwave {
namespace {

using testing::AllOf;
using testing::HasSubstr;

LONGWAVE_KERNEL(64) barrier_of_half_the_block(float*) {
  if (device::thread() < 32) device::barrier();  // half barrier
}

LONGWAVE_KERNEL(64) two_barriers(float*) {
  if (device::thread() < 32) {
    device::barrier();  // first of two
  } else {
    device::barrier();  // second of two
  }
}

LONGWAVE_KERNEL(32) shuffle_of_half_a_warp(float* data) {
  float value = 1;
  if (device::thread() < 16) value = device::shuffle_xor(value, 1);  // half shuffle
  data[device::thread()] = value;
}

LONGWAVE_KERNEL(32) shuffles_of_two_kinds(float* data) {
  float value = 1;
  if (device::thread() % 2 == 0) {
    value = device::shuffle_xor(value, 2);  // even shuffle
  } else {
    value = device::shuffle_xor(value, 4);  // odd shuffle
  }
  data[device::thread()] = value;
}

LONGWAVE_KERNEL(32) reads_unwritten(float* data) {
  LONGWAVE_SHARED(float, tile, 32);
  if (device::thread() != 7) tile[device::thread()] = 1;
  device::barrier();
  data[device::thread()] = tile[device::thread()];  // unwritten
}

LONGWAVE_KERNEL(32) reads_dynamic_of_the_block_before(float* data) {
  auto* tile = reinterpret_cast<float*>(device::dynamic_shared());
  if (device::block_x() == 0) tile[device::thread()] = 1;
  data[device::thread()] = tile[device::thread()];  // stale
}

LONGWAVE_KERNEL(64) reads_a_neighbour_too_early(float* data) {
  LONGWAVE_SHARED(float, tile, 64);
  tile[device::thread()] = 1;
  data[device::thread()] = tile[device::thread() / 2 * 2];  // early
}

LONGWAVE_KERNEL(64) overwrites_what_others_read(float* data) {
  LONGWAVE_SHARED(float, tile, 64);
  tile[device::thread()] = 1;
  device::barrier();
  if (device::thread() >= 32) {
    data[device::thread()] = tile[device::thread() - 32];
  } else {
    tile[device::thread()] = 2;  // overwrites
  }
}

LONGWAVE_KERNEL(64) two_warps_write_one_place(float* data) {
  LONGWAVE_SHARED(float, sum, 1);
  if (device::thread() % 32 == 0) sum[0] = 1;  // two writers
  device::barrier();
  data[device::thread()] = sum[0];
}

LONGWAVE_KERNEL(32) takes_a_shuffle_for_a_barrier(float* data) {
  LONGWAVE_SHARED(float, tile, 32);
  tile[device::thread()] = 1;
  device::shuffle_xor(1.0f, 1);
  data[device::thread()] = tile[device::thread() ^ 1];  // shuffled
}

LONGWAVE_KERNEL(32) reads_a_copy_under_way(float* data) {
  LONGWAVE_SHARED(float, tile, 128);
  device::copy_async16(tile + device::thread() * 4, data + device::thread() * 4, true);
  device::copy_async_commit();
  device::copy_async_wait<1>();
  device::barrier();
  data[device::thread()] = tile[device::thread()];  // under way
}

LONGWAVE_KERNEL(32) reads_a_copy_without_a_barrier(float* data) {
  LONGWAVE_SHARED(float, tile, 128);
  device::copy_async16(tile + device::thread() * 4, data + device::thread() * 4, true);
  device::copy_async_commit();
  device::copy_async_wait<0>();
  data[device::thread()] = tile[device::thread()];  // no barrier
}

LONGWAVE_KERNEL(32) writes_one_too_many(float* data) {
  data[device::thread() * 4 + 4] = 1;  // one past the end
}

LONGWAVE_KERNEL(32) loads_before_the_begin(float* data) {
  const device::Words4 words = device::load16(data - 4 + device::thread() * 4);  // before
  device::store16(data + device::thread() * 4, words);
}

LONGWAVE_KERNEL(32) writes_past_its_shared_memory(float* data) {
  LONGWAVE_SHARED(float, tile, 32);
  tile[device::thread() + 1] = 1;  // past shared
  device::barrier();
  data[device::thread()] = tile[1];
}

LONGWAVE_KERNEL(32) loads_sixteen_bytes_of_four(float* data) {
  const device::Words4 words = device::load16(data + device::thread());  // misaligned
  device::store16(data, words);
}

LONGWAVE_KERNEL(32) follows_a_host_pointer(float* data, const float* host) {
  data[device::thread()] = host[device::thread()];  // host pointer
}

LONGWAVE_KERNEL(32) blocks_write_one_place(float* data) {
  data[device::thread()] = static_cast<float>(device::block_x());  // two blocks
}

LONGWAVE_KERNEL(32) reads_what_another_block_writes(float* data) {
  if (device::block_x() == 0) {
    data[device::thread()] = 1;
  } else {
    data[32 + device::thread()] = data[31 - device::thread()];  // of another block
  }
}

LONGWAVE_KERNEL(32) overwrites_what_another_block_reads(float* data) {
  if (device::block_x() == 0) {
    data[32 + device::thread()] = data[device::thread()];
  } else {
    const device::Words4 words = {};
    if (device::thread() < 8) device::store16(data + 4 * device::thread(), words);  // over another block's
  }
}

LONGWAVE_KERNEL(64) warps_write_one_place(float* data) {
  if (device::thread() % 32 == 0) data[5] = 1;  // two warps
}

LONGWAVE_KERNEL(64) reads_device_memory_too_early(float* data) {
  data[device::thread()] = 1;
  data[64 + device::thread()] = data[device::thread() / 2 * 2];  // before a barrier
}

LONGWAVE_KERNEL(64) overwrites_device_memory_too_early(float* data) {
  if (device::thread() < 32) {
    data[64 + device::thread()] = data[32 + device::thread()];
  } else {
    data[device::thread()] = 2;  // read by the other warp
  }
}

// Which line of this file ends in `// mark`.
int line_of(const std::string& mark) {
  std::ifstream source(LONGWAVE_SOURCE_DIR "/tests/simt/wrong_kernels_test.cu");
  std::string line;
  for (int number = 1; std::getline(source, line); ++number) {
    if (line.ends_with("// " + mark)) return number;
  }
  ADD_FAILURE() << "no line is marked " << mark;
  return 0;
}

class WrongKernel : public testing::Test {
 protected:
  ~WrongKernel() override { simt::reset(); }

  // Runs `kernel` on 128 floats and returns the one report.
  template <class... Arguments>
  std::string report_of(void (*kernel)(Arguments...), int threads, int blocks, std::type_identity_t<Arguments>... arguments) {
    launch("wrong", kernel, {.x = blocks}, threads, 1024, stream_, arguments...);
    EXPECT_EQ(stream_.wait(), cudaErrorLaunchFailure);
    const std::vector<std::string> reports = simt::take_reports();
    EXPECT_EQ(reports.size(), 1u);
    return reports.empty() ? "" : reports.front();
  }

  static testing::Matcher<std::string> at(int thread, const std::string& mark, int block = 0) {
    return AllOf(HasSubstr("kernel wrong, block (" + std::to_string(block) + ", 0, 0), thread " + std::to_string(thread) +
                           ", tests/simt/wrong_kernels_test.cu:" + std::to_string(line_of(mark)) + ": "),
                 testing::Not(HasSubstr("unknown")));
  }

  simt::Stream stream_;
  simt::DeviceArray<float> data_{stream_, std::vector<float>(128)};
};

TEST_F(WrongKernel, BarrierOfHalfTheBlockIsReported) {
  EXPECT_THAT(report_of(barrier_of_half_the_block, 64, 1, data_.data()),
              AllOf(at(0, "half barrier"), HasSubstr("divergent barrier: thread 32 has left the kernel")));
}

TEST_F(WrongKernel, BarriersOfTwoLinesAreReported) {
  EXPECT_THAT(report_of(two_barriers, 64, 1, data_.data()),
              AllOf(at(32, "second of two"), HasSubstr("divergent barrier"),
                    HasSubstr("wrong_kernels_test.cu:" + std::to_string(line_of("first of two")))));
}

TEST_F(WrongKernel, ShuffleOfHalfAWarpIsReported) {
  EXPECT_THAT(report_of(shuffle_of_half_a_warp, 32, 1, data_.data()),
              AllOf(at(0, "half shuffle"), HasSubstr("divergent warp operation: thread 16 has left the kernel")));
}

TEST_F(WrongKernel, ShufflesOfTwoLinesAreReported) {
  EXPECT_THAT(report_of(shuffles_of_two_kinds, 32, 1, data_.data()),
              AllOf(at(1, "odd shuffle"), HasSubstr("divergent warp operation")));
}

TEST_F(WrongKernel, ReadOfUnwrittenSharedMemoryIsReported) {
  EXPECT_THAT(report_of(reads_unwritten, 32, 1, data_.data()), AllOf(at(7, "unwritten"), HasSubstr("nothing has written")));
}

TEST_F(WrongKernel, SharedMemoryDoesNotOutliveItsBlock) {
  EXPECT_THAT(report_of(reads_dynamic_of_the_block_before, 32, 2, data_.data()),
              AllOf(at(0, "stale", 1), HasSubstr("nothing has written")));
}

TEST_F(WrongKernel, ReadThatRacesAWriteIsReported) {
  EXPECT_THAT(report_of(reads_a_neighbour_too_early, 64, 1, data_.data()),
              AllOf(at(1, "early"), HasSubstr("read of shared memory conflicts with the write of thread")));
}

TEST_F(WrongKernel, WriteThatRacesAReadIsReported) {
  EXPECT_THAT(report_of(overwrites_what_others_read, 64, 1, data_.data()),
              AllOf(at(31, "overwrites"), HasSubstr("write of shared memory conflicts with the read of thread 63")));
}

TEST_F(WrongKernel, WritesThatRaceAreReported) {
  EXPECT_THAT(report_of(two_warps_write_one_place, 64, 1, data_.data()),
              AllOf(at(32, "two writers"), HasSubstr("conflicts with the write of thread 0")));
}

TEST_F(WrongKernel, ShuffleOrdersNoMemory) {
  EXPECT_THAT(report_of(takes_a_shuffle_for_a_barrier, 32, 1, data_.data()),
              AllOf(HasSubstr(std::to_string(line_of("shuffled"))), HasSubstr("conflicts with the write")));
}

TEST_F(WrongKernel, ReadOfACopyUnderWayIsReported) {
  EXPECT_THAT(report_of(reads_a_copy_under_way, 32, 1, data_.data()),
              AllOf(at(31, "under way"), HasSubstr("an asynchronous copy is still writing")));
}

TEST_F(WrongKernel, CopyNeedsABarrierBeforeOthersReadIt) {
  EXPECT_THAT(report_of(reads_a_copy_without_a_barrier, 32, 1, data_.data()),
              AllOf(HasSubstr(std::to_string(line_of("no barrier"))), HasSubstr("conflicts with the write")));
}

TEST_F(WrongKernel, WritePastAnAllocationIsReported) {
  EXPECT_THAT(report_of(writes_one_too_many, 32, 1, data_.data()),
              AllOf(at(31, "one past the end"), HasSubstr("write of 4 bytes outside every allocation")));
}

TEST_F(WrongKernel, VectorLoadBeforeAnAllocationIsReported) {
  EXPECT_THAT(report_of(loads_before_the_begin, 32, 1, data_.data()),
              AllOf(at(0, "before"), HasSubstr("read of 16 bytes outside every allocation")));
}

TEST_F(WrongKernel, WritePastSharedMemoryIsReported) {
  EXPECT_THAT(report_of(writes_past_its_shared_memory, 32, 1, data_.data()),
              AllOf(at(31, "past shared"), HasSubstr("outside the block's shared memory")));
}

TEST_F(WrongKernel, MisalignedVectorIsReported) {
  EXPECT_THAT(report_of(loads_sixteen_bytes_of_four, 32, 1, data_.data()), AllOf(at(1, "misaligned"), HasSubstr("no multiple of 16")));
}

TEST_F(WrongKernel, WritesOfTwoBlocksAreReported) {
  EXPECT_THAT(report_of(blocks_write_one_place, 32, 2, data_.data()),
              AllOf(at(0, "two blocks", 1),
                    HasSubstr("write of device memory conflicts with the write of block (0, 0, 0), thread 0")));
}

TEST_F(WrongKernel, ReadOfWhatAnotherBlockWritesIsReported) {
  EXPECT_THAT(report_of(reads_what_another_block_writes, 32, 2, data_.data()),
              AllOf(at(0, "of another block", 1),
                    HasSubstr("read of device memory conflicts with the write of block (0, 0, 0), thread 31")));
}

TEST_F(WrongKernel, WriteOfWhatAnotherBlockReadsIsReported) {
  EXPECT_THAT(report_of(overwrites_what_another_block_reads, 32, 2, data_.data()),
              AllOf(at(0, "over another block's", 1),
                    HasSubstr("write of device memory conflicts with the read of block (0, 0, 0)")));
}

TEST_F(WrongKernel, WritesOfTwoWarpsToDeviceMemoryAreReported) {
  EXPECT_THAT(report_of(warps_write_one_place, 64, 1, data_.data()),
              AllOf(at(32, "two warps"),
                    HasSubstr("write of device memory conflicts with the write of thread 0: no barrier")));
}

TEST_F(WrongKernel, ReadOfDeviceMemoryThatRacesAWriteIsReported) {
  EXPECT_THAT(report_of(reads_device_memory_too_early, 64, 1, data_.data()),
              AllOf(at(1, "before a barrier"),
                    HasSubstr("read of device memory conflicts with the write of thread 0: no barrier")));
}

TEST_F(WrongKernel, WriteOfDeviceMemoryThatRacesAReadIsReported) {
  EXPECT_THAT(report_of(overwrites_device_memory_too_early, 64, 1, data_.data()),
              AllOf(at(32, "read by the other warp"),
                    HasSubstr("write of device memory conflicts with the read of thread 0: no barrier")));
}

TEST_F(WrongKernel, HostMemoryIsNotForKernels) {
  const std::vector<float> host(32);
  EXPECT_THAT(report_of(follows_a_host_pointer, 32, 1, data_.data(), host.data()),
              AllOf(at(0, "host pointer"), HasSubstr("read of 4 bytes of host memory")));
}

TEST_F(WrongKernel, UseAfterFreeIsReported) {
  float* stale = nullptr;
  {
    const simt::DeviceArray<float> gone(128);
    stale = gone.data();
  }
  EXPECT_THAT(report_of(writes_one_too_many, 32, 1, stale), HasSubstr("outside every allocation"));
}

TEST(HostCode, CannotTouchDeviceMemory) {
  const simt::DeviceArray<float> data(4);
  EXPECT_EXIT({ data.data()[0] = 1; std::exit(0); }, testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace longwave
