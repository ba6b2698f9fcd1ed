#include "core/backend/cpu/cpu_backend.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cstring>
#include <limits>

#include "core/backend/cpu/isa.h"
#include "tests/unit/backend/device_tensor.h"

namespace longwave {
namespace {

TEST(CpuBackend, MemoryIsZeroedAndAligned) {
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{257}, std::size_t{5} << 20}) {
    auto* block = static_cast<unsigned char*>(backend_under_test().allocate(bytes));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 256, 0u);
    std::size_t dirty = 0;
    for (std::size_t i = 0; i < bytes; ++i) dirty += block[i] != 0;
    EXPECT_EQ(dirty, 0u) << bytes;
    std::memset(block, 1, bytes);  // so that a block handed out again would be seen dirty
    backend_under_test().release(block);
  }
}

TEST(CpuBackend, RefusedMemoryIsAnErrorThatNamesTheSize) {
  for (std::size_t bytes : {std::size_t{1} << 60, std::numeric_limits<std::size_t>::max()}) {
    try {
      backend_under_test().allocate(bytes);
      FAIL() << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::configuration);
      EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos);
    }
  }
}

TEST(CpuBackend, SaysWhatItIs) {
  const DeviceInfo info = backend_under_test().info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_FALSE(info.instructions.empty());
  EXPECT_TRUE(!info.has_bf16 || active_isa() >= Isa::avx512_bf16) << "bf16 is not offered below LONGWAVE_MAX_ISA";
}

TEST(CpuBackend, RefusesANegativeNumberOfThreads) {
  BackendOptions options;
  options.threads = -1;
  EXPECT_THROW(make_cpu_backend(options), Error);
}

// What all reductions give with a number of threads.
Values reductions_with(int threads) {
  const int before = omp_get_max_threads();
  BackendOptions options;
  options.threads = threads;
  const auto backend = make_cpu_backend(options);
  const std::int64_t rows = 1001, width = 129, vocabulary = 65;
  const DeviceTensor x(DType::f32, {rows, width}, "x"), dy(DType::f32, {rows, width}, "dy"), gain(DType::f32, {width}, "gain");
  const DeviceTensor dx(DType::f32, {rows, width}), dgain(DType::f32, {width}), y(DType::f32, {rows, width});
  const DeviceTensor rstd(DType::f32, {rows}), dtable(DType::f32, {vocabulary, width}), sum(DType::f64, {1});
  Values id_of;
  for (std::int64_t row = 0; row < rows; ++row) id_of.push_back(static_cast<double>(row * 7 % vocabulary));
  const DeviceTensor ids(DType::i32, {rows}, id_of);
  backend->rmsnorm_forward(x, gain, 1e-6f, y, rstd);
  backend->rmsnorm_backward(dy, x, gain, rstd, dx, dgain);
  backend->embedding_backward(ids, dy, 0, dtable);
  backend->sum_of_squares(x, sum);
  omp_set_num_threads(before);
  Values all = dgain.read();
  for (const Values& more : {dx.read(), dtable.read(), sum.read()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(CpuBackend, ReductionsGiveTheSameBitsForAnyNumberOfThreads) {
  const Values alone = reductions_with(1);
  EXPECT_EQ(alone, reductions_with(2));
  EXPECT_EQ(alone, reductions_with(3));
}

}  // namespace
}  // namespace longwave
