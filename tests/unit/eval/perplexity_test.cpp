#include "core/eval/perplexity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace longwave {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PerplexityOptions at(std::vector<std::int64_t> lengths, std::int64_t tokens = 1000, std::int64_t train_length = 4) {
  PerplexityOptions options;
  options.lengths = std::move(lengths);
  options.tokens = tokens;
  options.train_length = train_length;
  return options;
}

// Losses of a chunk that differ at every position and chunk.
std::vector<float> losses_of(std::int64_t chunk, std::int64_t length) {
  std::vector<float> losses;
  for (std::int64_t i = 0; i < length - 1; ++i) {
    losses.push_back(static_cast<float>(2 + 0.1 * std::sin(7.0 * static_cast<double>(chunk * 100 + i))));
  }
  return losses;
}

TEST(Perplexity, IsTheExponentialOfTheMeanOverTargetsThenChunks) {
  PerplexitySums sums(at({4}), 9);  // two chunks, the ninth token is the remainder
  const float first[] = {1, 2, 3}, second[] = {2, 4, 6};
  sums.add_chunk(0, 0, first);
  sums.add_chunk(0, 1, second);
  const std::vector<PerplexityResult> results = sums.results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].chunks, 2);
  EXPECT_EQ(results[0].targets, 6);
  EXPECT_DOUBLE_EQ(results[0].perplexity, std::exp(3.0));
  EXPECT_DOUBLE_EQ(results[0].tail_perplexity, std::exp((2.5 + 5.0) / 2));
  EXPECT_DOUBLE_EQ(results[0].last_64_perplexity, std::exp(3.0));
}

TEST(Perplexity, OfTheLastTargetsLeavesTheEarlierOut) {
  PerplexitySums sums(at({200}), 200);
  std::vector<float> losses(199, 100.0f);
  std::fill(losses.end() - 64, losses.end(), 1.5f);
  sums.add_chunk(0, 0, losses.data());
  EXPECT_DOUBLE_EQ(sums.results()[0].last_64_perplexity, std::exp(1.5));
  EXPECT_DOUBLE_EQ(sums.results()[0].tail_perplexity, std::exp((64 * 1.5 + 36 * 100.0) / 100));
}

TEST(Perplexity, UsesAtMostTheTokensAskedFor) {
  PerplexitySums sums(at({8, 16, 64}, 50), 1000);
  ASSERT_EQ(sums.lengths().size(), 2u);
  EXPECT_EQ(sums.lengths()[0].chunks, 6);
  EXPECT_EQ(sums.lengths()[1].chunks, 3);
  EXPECT_THAT(sums.notes(), ElementsAre(HasSubstr("length 64 is left out: evaluate.tokens is 50")));
}

TEST(Perplexity, LeavesOutALengthWithoutAWholeChunk) {
  PerplexitySums sums(at({1, 100, 101}), 100);
  ASSERT_EQ(sums.lengths().size(), 1u);
  EXPECT_EQ(sums.lengths()[0].length, 100);
  EXPECT_THAT(sums.notes(), ElementsAre(HasSubstr("length 1 "),
                                        HasSubstr("length 101 is left out: data.validation has 100 tokens")));
}

TEST(LossByPosition, CoversEveryTargetOnceWithAnEdgeAtTheTrainingLength) {
  for (std::int64_t length : {2, 3, 65, 1000}) {
    PerplexitySums sums(at({length}, 5000, 37), 5000);
    const std::vector<std::int64_t>& edges = sums.lengths()[0].edges;
    EXPECT_EQ(edges.front(), 1);
    EXPECT_EQ(edges.back(), length);
    EXPECT_TRUE(std::is_sorted(edges.begin(), edges.end()));
    EXPECT_LE(edges.size(), 66u);
    EXPECT_EQ(std::count(edges.begin(), edges.end(), 37), length > 37 ? 1 : 0);
  }
}

TEST(LossByPosition, AveragesOverChunksAndPositions) {
  PerplexityOptions options = at({8}, 16, 4);
  options.position_buckets = 1;
  PerplexitySums sums(options, 16);
  const float first[] = {1, 2, 3, 10, 10, 10, 10}, second[] = {3, 4, 5, 20, 20, 20, 20};
  sums.add_chunk(0, 0, first);
  sums.add_chunk(0, 1, second);
  const std::vector<PositionBucket> buckets = sums.results()[0].loss_by_position;
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(buckets[0].begin, 1);
  EXPECT_EQ(buckets[0].end, 4);
  EXPECT_EQ(buckets[1].end, 8);
  EXPECT_DOUBLE_EQ(buckets[0].loss, 3);
  EXPECT_DOUBLE_EQ(buckets[1].loss, 15);
}

TEST(PerplexitySums, DoNotDependOnTheNumberOfRanks) {
  const PerplexityOptions options = at({16, 50}, 1000, 20);
  PerplexitySums whole(options, 1000);
  std::vector<PerplexitySums> parts(3, whole);
  for (std::size_t l = 0; l < 2; ++l) {
    for (std::int64_t chunk = 0; chunk < whole.lengths()[l].chunks; ++chunk) {
      const std::vector<float> losses = losses_of(chunk, whole.lengths()[l].length);
      whole.add_chunk(l, chunk, losses.data());
      parts[static_cast<std::size_t>(chunk % 3)].add_chunk(l, chunk, losses.data());
    }
  }
  for (std::size_t i = 0; i < parts[0].flat().size(); ++i) parts[0].flat()[i] += parts[1].flat()[i] + parts[2].flat()[i];
  const auto expected = whole.results(), reduced = parts[0].results();
  for (std::size_t l = 0; l < 2; ++l) {
    EXPECT_EQ(reduced[l].perplexity, expected[l].perplexity);  // to the bit
    EXPECT_EQ(reduced[l].tail_perplexity, expected[l].tail_perplexity);
    for (std::size_t k = 0; k < expected[l].loss_by_position.size(); ++k) {
      EXPECT_NEAR(reduced[l].loss_by_position[k].loss, expected[l].loss_by_position[k].loss, 1e-12);
    }
  }
}

TEST(PerplexitySums, RefuseAMissingAndATwiceCountedChunk) {
  PerplexitySums sums(at({4}), 8);
  const float losses[] = {1, 2, 3};
  sums.add_chunk(0, 0, losses);
  EXPECT_ANY_THROW(sums.results());
  sums.add_chunk(0, 1, losses);
  EXPECT_NO_THROW(sums.results());
  sums.add_chunk(0, 1, losses);
  EXPECT_ANY_THROW(sums.results());
}

TEST(PerplexityFiles, HoldWhatWasMeasured) {
  PerplexitySums sums(at({4}), 4);
  const float losses[] = {1, 1, 1};
  sums.add_chunk(0, 0, losses);
  const auto file = nlohmann::json::parse(perplexity_json(4, sums.results()));
  EXPECT_EQ(file["train_length"], 4);
  ASSERT_EQ(file["lengths"].size(), 1u);
  EXPECT_EQ(file["lengths"][0]["length"], 4);
  EXPECT_EQ(file["lengths"][0]["targets"], 3);
  EXPECT_EQ(file["lengths"][0]["chunks"], 1);
  EXPECT_DOUBLE_EQ(file["lengths"][0]["perplexity"].get<double>(), std::exp(1.0));
  EXPECT_DOUBLE_EQ(file["lengths"][0]["tail_perplexity"].get<double>(), std::exp(1.0));
  EXPECT_EQ(file["lengths"][0]["loss_by_position"].back()["end"], 4);
  EXPECT_EQ(perplexity_csv(sums.results()),
            "length,perplexity,tail_perplexity,last_64_perplexity,targets,chunks\n"
            "4,2.718281828459045,2.718281828459045,2.718281828459045,3,1\n");
}

TEST(PerplexityFiles, SayNullWhereALossWasNotFinite) {
  PerplexitySums sums(at({3}), 3);
  const float losses[] = {std::numeric_limits<float>::quiet_NaN(), 1};
  sums.add_chunk(0, 0, losses);
  const auto file = nlohmann::json::parse(perplexity_json(4, sums.results()));
  EXPECT_TRUE(file["lengths"][0]["perplexity"].is_null());
  EXPECT_FALSE(file["lengths"][0]["tail_perplexity"].is_null());
}

}  // namespace
}  // namespace longwave
