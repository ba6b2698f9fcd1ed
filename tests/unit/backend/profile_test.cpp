#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/backend/profile/profiling_backend.h"
#include "jobs/profile.h"

namespace longwave {
namespace {

using ::testing::ContainsRegex;

Tensor matrix(std::vector<float>& memory, std::int64_t rows, std::int64_t columns) {
  memory.resize(static_cast<std::size_t>(rows * columns), 0.5f);
  return {memory.data(), DType::f32, {rows, columns}};
}

TEST(ProfilingBackend, PassesCallsOnAndCountsTheirOperationsAndBytes) {
  ProfilingBackend backend(make_cpu_backend({1}));
  std::vector<float> x, weight, y;
  for (int call = 0; call < 2; ++call) backend.linear_forward(matrix(x, 3, 5), matrix(weight, 7, 5), matrix(y, 3, 7));
  EXPECT_EQ(y, std::vector<float>(21, 5 * 0.25f));

  const std::vector<Profile::Line> lines = backend.profile().by_seconds();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].key, (ProfileKey{"linear_forward", 3, 7, 5}));
  EXPECT_EQ(lines[0].entry.calls, 2);
  EXPECT_EQ(lines[0].entry.work.operations, 2 * 2 * 3 * 7 * 5);
  EXPECT_EQ(lines[0].entry.work.bytes, 2 * 4 * (3 * 5 + 7 * 5 + 3 * 7));
  EXPECT_GT(lines[0].entry.seconds, 0);
}

TEST(ProfilingBackend, CountsOnlyThePairsOfCausalAttention) {
  ProfilingBackend backend(make_cpu_backend({1}));
  constexpr std::int64_t length = 3, head_dim = 4;
  std::vector<float> q, k, v, out, lse;
  const auto head = [&](std::vector<float>& memory) { return matrix(memory, length, head_dim).view({1, 1, length, head_dim}); };
  backend.attention_forward(head(q), head(k), head(v), {1, length, 1, 1, head_dim}, {}, matrix(out, length, head_dim),
                            matrix(lse, 1, length).view({1, 1, length}));
  EXPECT_EQ(backend.profile().total().work.operations, 4 * head_dim * (1 + 2 + 3));
}

TEST(Profile, ListsTheMostExpensiveFirst) {
  Profile profile;
  profile.add({"cheap"}, 1, {});
  profile.add({"dear"}, 3, {});
  profile.add({"cheap"}, 1, {});
  const std::vector<Profile::Line> lines = profile.by_seconds();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].key.operation, "dear");
  EXPECT_EQ(lines[1].entry.calls, 2);
}

TEST(Profile, FloorIsTheSlowerOfArithmeticAndMemory) {
  const HardwareRates rates = {.operations_per_second = 100, .bytes_per_second = 10};
  EXPECT_EQ(floor_seconds({200, 10}, rates), 2);
  EXPECT_EQ(floor_seconds({100, 50}, rates), 5);
}

TEST(Profile, TableShowsRatesAndWhatPassedOutsideOfOperations) {
  Profile profile;
  profile.add({"linear_forward", 2, 3, 4}, 4, {200e9, 1});
  profile.add({"zero"}, 2, {0, 10e9});
  const std::string table = profile_table(profile, {.operations_per_second = 100e9, .bytes_per_second = 10e9}, 8);
  EXPECT_THAT(table, ContainsRegex("linear_forward +2 x 3 x 4 +1 +4.000 +50.0 +50.0 +GFLOP/s +0.50"));
  EXPECT_THAT(table, ContainsRegex("zero +1 +2.000 +25.0 +5.0 +GB/s +0.50"));
  EXPECT_THAT(table, ContainsRegex("outside of these +2.000 +25.0"));
  EXPECT_THAT(table, ContainsRegex("all +2 +8.000 +100.0 +25.0 +GFLOP/s +0.25"));
}

}  // namespace
}  // namespace longwave
