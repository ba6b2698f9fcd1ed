#include "core/eval/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <stdexcept>

#include "core/backend/backend.h"
#include "core/model/tensor_group.h"

namespace longwave {
namespace {

constexpr std::int64_t vocabulary = 257;

// Ids that no model has reason to expect.
class HashedTokens : public TokenSource {
 public:
  HashedTokens(std::int64_t size, std::uint64_t seed) : size_(size), key_(seed, "tokens") {}
  std::int64_t size() const override { return size_; }
  std::int64_t vocabulary() const override { return longwave::vocabulary; }
  const std::string& name() const override { return name_; }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const override {
    if (begin < 0 || begin + count > size_) throw std::out_of_range("read past the end");
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<std::int32_t>(key_.below(longwave::vocabulary, static_cast<std::uint64_t>(begin + i)));
    }
  }

 private:
  std::int64_t size_;
  RandomKey key_;
  std::string name_ = "hashed tokens";
};

class Evaluation : public ::testing::Test {
 protected:
  Evaluation() : backend_(make_cpu_backend()), model_(sizes(), {}, {}, backend_.get(), group_) { model_.initialise(); }

  static ModelConfig sizes() {
    ModelConfig model;
    model.layers = 1;
    model.width = 16;
    model.heads = 2;
    model.kv_heads = 1;
    model.head_dim = 16;
    model.mlp_hidden = 32;
    model.context = 32;
    model.vocabulary = vocabulary;
    return model;
  }

  void set(const std::string& name, const std::vector<float>& values) {
    const std::size_t index = model_.parameters().find(name);
    ASSERT_EQ(static_cast<std::size_t>(model_.parameters()[index].count()), values.size());
    backend_->copy_from_host(model_.parameters().value(index), values.data());
  }

  std::vector<float> zeros(const std::string& name) {
    return std::vector<float>(static_cast<std::size_t>(model_.parameters()[model_.parameters().find(name)].count()));
  }

  std::unique_ptr<Backend> backend_;
  TensorGroup group_;
  Transformer model_;
};

TEST_F(Evaluation, PerplexityOfAModelThatKnowsNothingIsTheVocabulary) {
  set("lm_head.weight", zeros("lm_head.weight"));
  const HashedTokens tokens(1000, 1);
  const TokenStream stream({&tokens});
  PerplexitySums sums({{16, 64, 500}, 1000, 32, 8}, stream.size());
  evaluate_perplexity(model_, stream, {}, sums);
  for (const PerplexityResult& result : sums.results()) {
    EXPECT_NEAR(result.perplexity, 257, 1e-3);
    EXPECT_NEAR(result.tail_perplexity, 257, 1e-3);
    EXPECT_NEAR(result.last_64_perplexity, 257, 1e-3);
    for (const PositionBucket& bucket : result.loss_by_position) EXPECT_NEAR(bucket.loss, std::log(257.0), 1e-5);
  }
}

TEST_F(Evaluation, PerplexityIsThatOfChunksReadOneByOne) {
  const HashedTokens first(150, 1), second(90, 2);
  const TokenStream stream({&first, &second});
  const std::int64_t length = 47, chunks = 5;  // the fourth chunk spans both sources
  PerplexitySums sums({{length}, 1000, 32, 8}, stream.size());
  EvaluationShare share;
  share.batch_tokens = 2 * length;  // batches of two, two and one
  evaluate_perplexity(model_, stream, share, sums);

  std::vector<std::int32_t> all(240);
  first.read(0, 150, all.data());
  second.read(0, 90, all.data() + 150);
  double mean = 0, tail = 0;
  model_.prepare_evaluation(1, length);
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const std::int32_t* tokens = all.data() + chunk * length;
    std::vector<std::int32_t> targets(tokens + 1, tokens + length);
    targets.push_back(-1);
    std::vector<float> losses(static_cast<std::size_t>(length));
    model_.evaluate(tokens, targets.data(), 1, length, losses.data(), nullptr);
    for (std::size_t i = 0; i < 46; ++i) {
      mean += losses[i] / (46.0 * chunks);
      if (i >= 23) tail += losses[i] / (23.0 * chunks);
    }
  }
  const std::vector<PerplexityResult> results = sums.results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].chunks, chunks);
  EXPECT_NEAR(results[0].perplexity / std::exp(mean), 1, 1e-6);
  EXPECT_NEAR(results[0].tail_perplexity / std::exp(tail), 1, 1e-6);
}

TEST_F(Evaluation, DoesNotDependOnHowManyRanksShareIt) {
  const HashedTokens tokens(400, 1);
  const TokenStream stream({&tokens});
  const PasskeyMaker maker(nullptr, vocabulary);
  const std::int64_t short_prompt = maker.shortest(), long_prompt = 2 * maker.shortest() + 3;
  const PerplexityOptions perplexity{{8, 40, 130}, 1000, 32, 8};
  const PasskeyOptions passkey{{short_prompt, long_prompt}, {0, 0.5, 1}, 3, 5};
  const auto run = [&](std::int64_t ranks) {
    PerplexitySums sums(perplexity, stream.size());
    PasskeySums keys(passkey, maker);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      PerplexitySums own(perplexity, stream.size());
      PasskeySums own_keys(passkey, maker);
      evaluate_perplexity(model_, stream, {rank, ranks, 256}, own);
      evaluate_passkey(model_, maker, {rank, ranks, 256}, own_keys);
      for (std::size_t i = 0; i < own.flat().size(); ++i) sums.flat()[i] += own.flat()[i];
      for (std::size_t i = 0; i < own_keys.flat().size(); ++i) keys.flat()[i] += own_keys.flat()[i];
    }
    return std::pair{sums.results(), keys.results()};
  };
  const auto one = run(1), five = run(5);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(five.first[i].perplexity / one.first[i].perplexity, 1, 1e-9);
    EXPECT_NEAR(five.first[i].tail_perplexity / one.first[i].tail_perplexity, 1, 1e-9);
  }
  ASSERT_EQ(one.second.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(five.second[i].correct, one.second[i].correct);
    EXPECT_EQ(five.second[i].digits, one.second[i].digits);
  }
}

// With the residual stream fixed to ones (embedding ones, branches zero), a head that is positive for one id only always
// says that id.
TEST_F(Evaluation, PasskeyCountsTheDigitsAModelThatAlwaysSaysTheSameGetsRight) {
  const PasskeyMaker maker(nullptr, vocabulary);
  PasskeySums sums({{maker.shortest(), 3 * maker.shortest()}, {0, 1}, 10, 1}, maker);
  const PasskeyPrompt sample = maker.prompt(maker.shortest(), 0, sums.cells()[0].key, 0);
  const std::int32_t said = sample.tokens[static_cast<std::size_t>(sample.answers[0])];

  std::vector<float> embedding = zeros("model.embed_tokens.weight"), head = zeros("lm_head.weight");
  std::fill(embedding.begin(), embedding.end(), 1.0f);
  std::fill_n(head.begin() + said * 16, 16, 1.0f);
  set("model.embed_tokens.weight", embedding);
  set("lm_head.weight", head);
  for (const char* branch : {"model.layers.0.self_attn.o_proj.weight", "model.layers.0.mlp.down_proj.weight"}) {
    set(branch, zeros(branch));
  }
  evaluate_passkey(model_, maker, {}, sums);

  const std::vector<PasskeyResult> results = sums.results();
  for (std::size_t cell = 0; cell < results.size(); ++cell) {
    std::int64_t right = 0, whole = 0;
    for (std::uint64_t trial = 0; trial < 10; ++trial) {
      const PasskeyPrompt prompt = maker.prompt(results[cell].length, results[cell].depth, sums.cells()[cell].key, trial);
      std::int64_t same = 0;
      for (std::int64_t answer : prompt.answers) same += prompt.tokens[static_cast<std::size_t>(answer)] == said ? 1 : 0;
      right += same;
      whole += same == 5 ? 1 : 0;
    }
    EXPECT_EQ(results[cell].correct, whole);
    EXPECT_DOUBLE_EQ(results[cell].digits, static_cast<double>(right) / 50);
  }
  EXPECT_GT(results[0].digits, 0);
}

TEST_F(Evaluation, ReportsItsProgressAndStopsWhenTold) {
  const HashedTokens tokens(100, 1);
  const TokenStream stream({&tokens});
  PerplexitySums sums({{10}, 1000, 32, 8}, stream.size());
  std::vector<std::int64_t> seen;
  const auto stop_at_six = [&](std::int64_t length, std::int64_t done, std::int64_t total) {
    EXPECT_EQ(length, 10);
    EXPECT_EQ(total, 10);
    seen.push_back(done);
    if (done >= 6) throw std::runtime_error("stop");
  };
  EXPECT_THROW(evaluate_perplexity(model_, stream, {0, 1, 30}, sums, stop_at_six), std::runtime_error);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{3, 6}));
}

}  // namespace
}  // namespace longwave
