#include "core/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/data/permutation.h"
#include "tests/unit/data/refusal.h"

namespace longwave {
namespace {

// Token i of the source is base + i, so that a sample says where it was read.
class CountingSource final : public TokenSource {
 public:
  CountingSource(std::int64_t size, std::int64_t base = 0) : size_(size), base_(base) {}
  std::int64_t size() const override { return size_; }
  std::int64_t vocabulary() const override { return 0; }
  const std::string& name() const override { return name_; }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const override {
    ASSERT_GE(begin, 0);
    ASSERT_LE(begin + count, size_);
    last_begin_ = begin;
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<std::int32_t>((base_ + begin + i) & 0x7fffffff);
  }
  std::int64_t last_begin() const { return last_begin_; }

 private:
  std::int64_t size_, base_;
  mutable std::int64_t last_begin_ = -1;
  std::string name_ = "counting";
};

struct Sample {
  explicit Sample(std::int64_t context)
      : tokens(static_cast<std::size_t>(context)), targets(tokens.size()), weights(tokens.size()) {}
  SampleView view() { return {tokens.data(), targets.data(), weights.data()}; }
  std::vector<std::int32_t> tokens, targets;
  std::vector<float> weights;
};

std::int64_t begin_of(const Sampler& sampler, std::int64_t context, std::int64_t index) {
  Sample sample(context);
  sampler.sample(index, sample.view());
  return sample.tokens[0];
}

TEST(Permutation, VisitsEveryElementOnce) {
  const RandomKey key(3, "test");
  for (std::int64_t size = 1; size <= 300; ++size) {
    const Permutation permutation(key, size, 5);
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < size; ++i) seen.insert(permutation(i));
    ASSERT_EQ(static_cast<std::int64_t>(seen.size()), size);
    ASSERT_EQ(*seen.begin(), 0);
    ASSERT_EQ(*seen.rbegin(), size - 1);
  }
}

TEST(Permutation, StaysInsideOfHugeSizes) {
  const RandomKey key(3, "test");
  const std::int64_t size = (std::int64_t{1} << 50) + 12345;
  const Permutation permutation(key, size, 0);
  std::set<std::int64_t> seen;
  double sum = 0;
  for (std::int64_t i = 0; i < 4000; ++i) {
    const std::int64_t value = permutation(size - 1 - i);
    ASSERT_GE(value, 0);
    ASSERT_LT(value, size);
    seen.insert(value);
    sum += static_cast<double>(value) / static_cast<double>(size);
  }
  EXPECT_EQ(seen.size(), 4000u);
  EXPECT_NEAR(sum / 4000, 0.5, 5 * 0.289 / std::sqrt(4000.0));
}

TEST(Permutation, SpreadsEveryElementEvenlyOverEpochs) {
  // Where the first element of five goes, over 20000 epochs: each place 4000 times, standard deviation 57.
  const RandomKey key(3, "test");
  std::vector<int> places(5);
  int successors = 0;
  for (std::uint64_t epoch = 0; epoch < 20000; ++epoch) {
    const Permutation permutation(key, 5, epoch);
    ++places[static_cast<std::size_t>(permutation(0))];
    successors += permutation(1) == (permutation(0) + 1) % 5;
  }
  for (const int count : places) EXPECT_NEAR(count, 4000, 5 * 57);
  EXPECT_NEAR(successors, 5000, 5 * 62);
}

TEST(Sampler, EachEpochVisitsEachWindowOnce) {
  constexpr std::int64_t context = 32, size = 32 * 41 + 7;
  const CountingSource source(size);
  const Sampler sampler({{&source, 1}}, context, 1, nullptr, 0);
  const std::int64_t epoch_samples = sampler.samples_per_epoch(0);
  EXPECT_EQ(epoch_samples, 40);
  std::set<std::int64_t> offsets;
  std::set<std::vector<std::int64_t>> orders;
  for (std::int64_t epoch = 0; epoch < 30; ++epoch) {
    std::vector<std::int64_t> begins;
    for (std::int64_t i = 0; i < epoch_samples; ++i) begins.push_back(begin_of(sampler, context, epoch * epoch_samples + i));
    orders.insert(begins);
    std::sort(begins.begin(), begins.end());
    EXPECT_LT(begins[0], context);
    offsets.insert(begins[0]);
    for (std::size_t i = 0; i < begins.size(); ++i) EXPECT_EQ(begins[i], begins[0] + static_cast<std::int64_t>(i) * context);
  }
  EXPECT_EQ(orders.size(), 30u);
  EXPECT_GT(offsets.size(), 12u);
}

TEST(Sampler, GivesTheNextTokensAsTargets) {
  const CountingSource source(1000);
  const Sampler sampler({{&source, 1}}, 100, 1, nullptr, 0);
  Sample sample(100);
  sampler.sample(3, sample.view());
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(sample.targets[i], sample.tokens[0] + static_cast<std::int32_t>(i) + 1);
    EXPECT_EQ(sample.weights[i], 1.0f);
    if (i > 0) {
      EXPECT_EQ(sample.tokens[i], sample.targets[i - 1]);
    }
  }
}

TEST(Sampler, OrderDoesNotDependOnRanksOrOnWhatWasReadBefore) {
  const CountingSource a(5000), b(3000, 1'000'000);
  constexpr std::int64_t context = 16, batch = 12, steps = 25;
  const auto run = [&](std::int64_t ranks) {
    std::vector<std::int64_t> begins(static_cast<std::size_t>(steps * batch));
    for (std::int64_t rank = ranks - 1; rank >= 0; --rank) {  // each rank its own object, the last first
      const Sampler sampler({{&a, 2}, {&b, 1}}, context, 9, nullptr, 0);
      for (std::int64_t step = 0; step < steps; ++step) {
        for (std::int64_t i = rank * batch / ranks; i < (rank + 1) * batch / ranks; ++i) {
          begins[static_cast<std::size_t>(step * batch + i)] = begin_of(sampler, context, step * batch + i);
        }
      }
    }
    return begins;
  };
  const auto alone = run(1);
  EXPECT_EQ(run(2), alone);
  EXPECT_EQ(run(3), alone);
  EXPECT_EQ(run(12), alone);
  EXPECT_GT(std::set<std::int64_t>(alone.begin(), alone.end()).size(), alone.size() * 9 / 10);
}

TEST(Sampler, OrderFollowsTheSeed) {
  const CountingSource source(100'000);
  std::set<std::vector<std::int64_t>> orders;
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Sampler sampler({{&source, 1}}, 16, seed, nullptr, 0);
    std::vector<std::int64_t> begins;
    for (std::int64_t i = 0; i < 20; ++i) begins.push_back(begin_of(sampler, 16, i));
    orders.insert(begins);
  }
  EXPECT_EQ(orders.size(), 3u);
}

TEST(Sampler, SourcesHaveTheirSharesAtEveryMoment) {
  const std::vector<double> weights = {0.5, 3, 0, 1.25, 0.25};
  const Apportionment apportionment(weights, RandomKey(4, "sources"));
  std::vector<std::int64_t> counts(weights.size(), 0);
  for (std::int64_t i = 0; i < 20'000; ++i) {
    const auto choice = apportionment.choose(i);
    EXPECT_EQ(choice.ordinal, counts[choice.source]++);
    for (std::size_t s = 0; s < weights.size(); ++s) {
      ASSERT_NEAR(static_cast<double>(counts[s]), weights[s] / 5 * static_cast<double>(i + 1), 5) << "source " << s;
    }
  }
  EXPECT_EQ(counts[2], 0);
}

TEST(Sampler, SharesHoldFarIntoARun) {
  const Apportionment apportionment({1, 2}, RandomKey(4, "sources"));
  const std::int64_t far = std::int64_t{1} << 45;
  for (std::int64_t i = far; i < far + 100; ++i) {
    const auto choice = apportionment.choose(i);
    EXPECT_NEAR(static_cast<double>(choice.ordinal) / static_cast<double>(i), choice.source == 0 ? 1 / 3.0 : 2 / 3.0, 1e-9);
  }
}

TEST(Sampler, ReadsPastFourGibitokens) {
  const CountingSource source(std::int64_t{1} << 40);
  const Sampler sampler({{&source, 1}}, 512, 1, nullptr, 0);
  EXPECT_EQ(sampler.samples_per_epoch(0), (std::int64_t{1} << 31) - 2);
  Sample sample(512);
  std::int64_t past = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    sampler.sample(i, sample.view());
    past += source.last_begin() > std::int64_t{1} << 32;
  }
  EXPECT_GT(past, 90);
}

TEST(Sampler, TakesASourceOfExactlyOneSample) {
  const CountingSource source(17);
  const Sampler sampler({{&source, 1}}, 16, 1, nullptr, 0);
  EXPECT_EQ(sampler.samples_per_epoch(0), 1);
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(begin_of(sampler, 16, i), 0);
}

TEST(Sampler, RefusesASourceShorterThanOneSample) {
  const CountingSource source(16);
  expect_refusal(ExitCode::data, {"counting", "16 tokens", "17"}, [&] { Sampler({{&source, 1}}, 16, 1, nullptr, 0); });
}

TEST(Sampler, RefusesWeightsThatAddUpToNothing) {
  const CountingSource source(100);
  expect_refusal(ExitCode::configuration, {"weights"}, [&] { Sampler({{&source, 0}}, 16, 1, nullptr, 0); });
}

TEST(Sampler, MixesPasskeyPromptsOfTrainingLengthInTheirShare) {
  const auto tokenizer = open_tokenizer("bytes");
  const PasskeyMaker passkeys(tokenizer.get(), 257);
  const CountingSource source(1'000'000, 1000);
  const Sampler sampler({{&source, 1}}, 256, 1, &passkeys, 0.1);
  Sample sample(256);
  int prompts = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    sampler.sample(i, sample.view());
    if (sample.tokens[0] >= 1000) continue;
    ++prompts;
    EXPECT_GT(*std::max_element(sample.weights.begin(), sample.weights.end()), 1.0f);
    EXPECT_GT(sample.weights.back(), 1.0f) << "a prompt ends with a digit of its key";
    EXPECT_TRUE(sample.targets.back() >= '0' && sample.targets.back() <= '9');
  }
  EXPECT_NEAR(prompts, 100, 2);
}

TEST(Sampler, RefusesPasskeysThatCannotBeSpelled) {
  const PasskeyMaker passkeys(nullptr, 20);
  const CountingSource source(1000);
  expect_refusal(ExitCode::configuration, {"train_fraction", "64"}, [&] { Sampler({{&source, 1}}, 256, 1, &passkeys, 0.1); });
}

TEST(Sampler, RefusesAContextTooShortForAPasskey) {
  const auto tokenizer = open_tokenizer("bytes");
  const PasskeyMaker passkeys(tokenizer.get(), 257);
  const CountingSource source(1000);
  expect_refusal(ExitCode::configuration, {"train_fraction"}, [&] { Sampler({{&source, 1}}, 16, 1, &passkeys, 0.1); });
}

}  // namespace
}  // namespace longwave
