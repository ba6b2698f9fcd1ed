// Runs with the unit tests of a folder in one program, whose kernels for AMX are on emulated tiles.
#include "tests/tiles/tiles.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/cpu/amx_permission.h"
#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cpu/isa.h"

namespace longwave {

bool has_amx() { return true; }  // instead of the processor's

namespace {

constexpr const char* not_here = "this processor has no AVX512-BF16, in which the rest of the kernels is";

TEST(Tiles, AreWhatTheBackendMultipliesOn) {
  if (active_isa() != Isa::amx_bf16) GTEST_SKIP() << not_here;
  const auto backend = make_cpu_backend();
  constexpr std::int64_t rows = 64, width = 96;
  std::vector<std::uint16_t> x(rows * width, 0x3f80), weight(width * width, 0x4000), y(rows * width);  // 1, 2
  const std::size_t before = emulated_tiles::products();
  backend->linear_forward({x.data(), DType::bf16, {rows, width}}, {weight.data(), DType::bf16, {width, width}},
                          {y.data(), DType::bf16, {rows, width}});
  EXPECT_EQ(emulated_tiles::products() - before, (rows / 16) * (width / 16) * (width / 32));
  for (const std::uint16_t value : y) ASSERT_EQ(value, 0x4340);  // 192
}

TEST(TilesDeathTest, EndTheProgramWithoutAConfiguration) {
  if (processor_isa() != Isa::amx_bf16) GTEST_SKIP() << not_here;
  EXPECT_DEATH(emulated_tiles::zero(0), "no configuration is loaded");
}

}  // namespace
}  // namespace longwave
