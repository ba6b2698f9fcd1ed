// The emulated hardware against what it is specified to do; on a GPU the same kernels test the header.
#include <gtest/gtest.h>

#include <cmath>

#include "core/backend/cuda/device.h"
#include "core/tensor/dtype.h"
#include "tests/simt/device_memory.h"

namespace longwave {
namespace {

using device::Bf16;

// c[16, 8] = a[16, 16] b[16, 8], with b given as its transpose [8, 16] or, `transposed`, as it is [16, 8].
LONGWAVE_KERNEL(32) multiply_tile(const Bf16* a, const Bf16* b, bool transposed, float* c) {
  LONGWAVE_SHARED(Bf16, a_tile, 16 * 16);
  LONGWAVE_SHARED(Bf16, b_tile, 16 * 16);
  const int lane = device::thread();
  device::copy_async16(a_tile + lane * 8, a + lane * 8, true);
  device::copy_async16(b_tile + lane * 8, b + lane * 8, lane < 16);
  device::copy_async_commit();
  device::copy_async_wait<0>();
  device::barrier();
  std::uint32_t left[4], right[4];
  device::load_matrices(left, a_tile + (lane % 16) * 16 + lane / 16 * 8);
  if (transposed) {
    device::load_matrices_transposed(right, b_tile + (lane % 16) * 8);
  } else {
    device::load_matrices(right, b_tile + (lane % 8) * 16 + lane / 8 % 2 * 8);
  }
  float sum[4] = {};
  device::mma_bf16(sum, left, right[0], right[1]);
  const int row = lane / 4, column = lane % 4 * 2;
  c[row * 8 + column] = sum[0];
  c[row * 8 + column + 1] = sum[1];
  c[(row + 8) * 8 + column] = sum[2];
  c[(row + 8) * 8 + column + 1] = sum[3];
}

LONGWAVE_KERNEL(64) add_up(const float* data, float* sum, double* wide, int* votes) {
  float value = data[device::thread()];
  double wide_value = value;
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value += device::shuffle_xor(value, lanes);
    wide_value += device::shuffle_xor(wide_value, lanes);
  }
  sum[device::thread()] = device::shuffle(value, 3);
  wide[device::thread()] = wide_value;
  votes[device::thread()] = device::any(device::thread() == 40);
}

LONGWAVE_KERNEL(128) reverse_blocks(const int* from, int* to) {
  auto* tile = reinterpret_cast<int*>(device::dynamic_shared());
  tile[device::thread()] = from[device::block_x() * device::threads() + device::thread()];
  device::barrier();
  const int block = device::grid_x() - 1 - device::block_x();
  to[block * device::threads() + device::thread()] = tile[device::threads() - 1 - device::thread()];
}

// Neighbours in device memory, two bytes each, and what a barrier or the end of a launch orders.
LONGWAVE_KERNEL(64) turn_around(Bf16* data) {
  Bf16* const own = data + device::block_x() * 64;
  const Bf16 value = own[device::thread()];
  device::barrier();
  own[63 - device::thread()] = value;
  device::barrier();
  const Bf16 again = own[device::thread() ^ 32];
  device::barrier();
  own[device::thread()] = again;
}

float value_of(int i) { return static_cast<float>((i * 37 + 11) % 61) / 16 - 2; }

std::vector<Bf16> bf16_of(int count, int offset) {
  std::vector<Bf16> values;
  for (int i = 0; i < count; ++i) values.push_back({bf16(value_of(i + offset)).bits});
  return values;
}

class TileProduct : public testing::TestWithParam<bool> {};

TEST_P(TileProduct, IsTheMatrixProduct) {
  const bool transposed = GetParam();
  const simt::Stream stream;
  const simt::DeviceArray<Bf16> a(stream, bf16_of(256, 0)), b(stream, bf16_of(128, 500));
  const simt::DeviceArray<float> c(128);
  launch("multiply_tile", multiply_tile, {}, 32, 0, stream, a.data(), b.data(), transposed, c.data());
  const std::vector<float> result = c.read(stream);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      double sum = 0;
      for (int k = 0; k < 16; ++k) {
        sum += static_cast<double>(value_of(i * 16 + k)) * static_cast<double>(value_of(500 + (transposed ? k * 8 + j : j * 16 + k)));
      }
      EXPECT_NEAR(result[static_cast<std::size_t>(i * 8 + j)], sum, 1e-4) << i << ", " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Device, TileProduct, testing::Bool());

TEST(Warp, ShufflesAndVotes) {
  const simt::Stream stream;
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) values.push_back(value_of(i));
  const simt::DeviceArray<float> data(stream, values), sum(64);
  const simt::DeviceArray<double> wide(64);
  const simt::DeviceArray<int> votes(64);
  launch("add_up", add_up, {}, 64, 0, stream, data.data(), sum.data(), wide.data(), votes.data());
  const auto sums = sum.read(stream);
  const auto wides = wide.read(stream);
  const auto answers = votes.read(stream);
  for (std::size_t i = 0; i < 64; ++i) {
    double expected = 0;
    for (std::size_t lane = 0; lane < 32; ++lane) expected += static_cast<double>(values[i / 32 * 32 + lane]);
    EXPECT_NEAR(sums[i], expected, 1e-4);
    EXPECT_DOUBLE_EQ(wides[i], expected);
    EXPECT_EQ(answers[i], i >= 32 ? 1 : 0);
  }
}

TEST(Block, SharesMemoryAcrossItsBarrier) {
  const simt::Stream stream;
  std::vector<int> values(5 * 128);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);
  const simt::DeviceArray<int> from(stream, values), to(values.size());
  launch("reverse_blocks", reverse_blocks, {.x = 5}, 128, 128 * sizeof(int), stream, from.data(), to.data());
  const std::vector<int> result = to.read(stream);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(result[i], static_cast<int>(values.size() - 1 - i));
}

TEST(Block, HandsOnDeviceMemoryAcrossItsBarrierAndToTheNextLaunch) {
  const simt::Stream stream;
  const std::vector<Bf16> values = bf16_of(3 * 64, 0);
  const simt::DeviceArray<Bf16> data(stream, values);
  for (int launches = 0; launches < 3; ++launches) launch("turn_around", turn_around, {.x = 3}, 64, 0, stream, data.data());
  const std::vector<Bf16> result = data.read(stream);
  // Back to front within each half of the block, three times.
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(result[i].bits, values[i ^ 31].bits) << i;
}

}  // namespace
}  // namespace longwave
