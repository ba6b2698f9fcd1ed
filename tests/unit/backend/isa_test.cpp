#include "core/backend/cpu/isa.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/backend/cpu/elementwise_kernels.h"
#include "core/base/error.h"

namespace longwave {
namespace {

TEST(Isa, MaximumIsReadFromItsNames) {
  EXPECT_EQ(parse_max_isa(nullptr), Isa::amx_bf16);
  for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx_bf16}) EXPECT_EQ(parse_max_isa(name_of(isa)), isa);
}

TEST(Isa, RefusesAnUnknownMaximumAsConfiguration) {
  for (const char* value : {"", "avx", "AVX2", "avx5120"}) {
    try {
      parse_max_isa(value);
      FAIL() << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::configuration);
      EXPECT_NE(std::string(error.what()).find("LONGWAVE_MAX_ISA"), std::string::npos);
    }
  }
}

TEST(Isa, ActiveOneObeysTheMaximum) {
  EXPECT_LE(active_isa(), processor_isa());
  EXPECT_LE(active_isa(), parse_max_isa(std::getenv("LONGWAVE_MAX_ISA")));
}

class EveryIsa : public testing::TestWithParam<Isa> {
 protected:
  // Kernels beyond the processor cannot run here; they are then covered by the ones below it.
  Isa isa() const { return std::min(GetParam(), processor_isa()); }
};

TEST_P(EveryIsa, ExpIsAccurateOverTheWholeRange) {
  std::vector<float> x, y;
  for (double value = -87.0; value < 88.7; value += 1.37e-3) x.push_back(static_cast<float>(value));
  for (float tiny = 1; tiny > 1e-38f; tiny /= 3) x.insert(x.end(), {tiny, -tiny});
  y.resize(x.size());
  elementwise_kernels(isa()).exp(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - exact) / exact);
  }
  EXPECT_LT(worst, 1.5e-7);
}

TEST_P(EveryIsa, ExpOfExtremesIsZeroInfinityOrNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {0, -0.0f, -infinity, -1e30f, -104.5f, 89, 1e30f, infinity, std::nanf("")};
  std::vector<float> y(x.size());
  elementwise_kernels(isa()).exp(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
  for (std::size_t i : {2, 3, 4}) EXPECT_EQ(y[i], 0.0f) << x[i];
  for (std::size_t i : {5, 6, 7}) EXPECT_EQ(y[i], infinity) << x[i];
  EXPECT_TRUE(std::isnan(y[8]));
}

TEST_P(EveryIsa, ExpOfVeryNegativeNumbersIsDenormalNotGarbage) {
  const std::vector<float> x = {-88, -95, -100, -103};
  std::vector<float> y(x.size());
  elementwise_kernels(isa()).exp(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], std::exp(static_cast<double>(x[i])), 2e-45) << x[i];
}

INSTANTIATE_TEST_SUITE_P(All, EveryIsa, testing::Values(Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

}  // namespace
}  // namespace longwave
