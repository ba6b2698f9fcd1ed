#include "core/data/passkey.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "tests/unit/data/invented_text.h"

namespace longwave {
namespace {

const RandomKey& test_key() {
  static const RandomKey key(11, "passkey-test");
  return key;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class BytePasskey : public testing::Test {
 protected:
  std::unique_ptr<Tokenizer> bytes_ = open_tokenizer("bytes");
  PasskeyMaker maker_{bytes_.get(), 257};
};

TEST_F(BytePasskey, FitsWellIntoAContextOf128) {
  EXPECT_EQ(maker_.obstacle(), "");
  EXPECT_LE(maker_.shortest(), 70);
}

TEST_F(BytePasskey, HasExactlyTheLengthAskedFor) {
  for (std::int64_t length = maker_.shortest(); length < 400; ++length) {
    for (const double depth : {0.0, 0.3, 1.0}) {
      const PasskeyPrompt prompt = maker_.prompt(length, depth, test_key(), static_cast<std::uint64_t>(length));
      ASSERT_EQ(static_cast<std::int64_t>(prompt.tokens.size()), length);
      ASSERT_EQ(prompt.answers.back(), length - 1);
    }
  }
}

TEST_F(BytePasskey, StatesTheKeyOnceAndAsksForItAtTheEnd) {
  for (std::uint64_t index = 0; index < 50; ++index) {
    const PasskeyPrompt prompt = maker_.prompt(1000, 0.5, test_key(), index);
    const std::string text = bytes_->decode(prompt.tokens);
    ASSERT_EQ(prompt.key.size(), 5u);
    EXPECT_EQ(prompt.key.find_first_not_of("0123456789"), std::string::npos);
    EXPECT_TRUE(text.ends_with(" What is it? The pass key is #" + prompt.key)) << text;
    EXPECT_EQ(occurrences(text, " The pass key is #" + prompt.key), 2u);
    EXPECT_EQ(occurrences(text, "#"), 2u);
    ASSERT_EQ(prompt.answers.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(prompt.tokens[static_cast<std::size_t>(prompt.answers[i])], prompt.key[i]);
    }
  }
}

TEST_F(BytePasskey, StandsAtItsDepthToWithinASentence) {
  constexpr std::int64_t length = 4096;
  for (const double depth : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    for (std::uint64_t index = 0; index < 20; ++index) {
      const PasskeyPrompt prompt = maker_.prompt(length, depth, test_key(), index);
      const auto at = static_cast<double>(bytes_->decode(prompt.tokens).find(" The pass key"));
      EXPECT_NEAR(at, depth * static_cast<double>(length - maker_.shortest()), 25) << depth;
    }
  }
}

TEST_F(BytePasskey, IsAFunctionOfItsArguments) {
  const PasskeyPrompt once = maker_.prompt(512, 0.25, test_key(), 3);
  const PasskeyPrompt again = PasskeyMaker(bytes_.get(), 257).prompt(512, 0.25, RandomKey(11, "passkey-test"), 3);
  EXPECT_EQ(once.tokens, again.tokens);
  EXPECT_EQ(once.key, again.key);
  std::set<std::string> keys;
  std::set<std::vector<std::int32_t>> texts;
  for (std::uint64_t index = 0; index < 100; ++index) {
    const PasskeyPrompt prompt = maker_.prompt(512, 0.25, test_key(), index);
    keys.insert(prompt.key);
    texts.insert(prompt.tokens);
  }
  EXPECT_GT(keys.size(), 97u);
  EXPECT_EQ(texts.size(), 100u);
}

TEST_F(BytePasskey, DrawsEveryDigitEvenly) {
  std::vector<int> counts(10);
  for (std::uint64_t index = 0; index < 4000; ++index) {
    for (const char digit : maker_.prompt(60, 0.5, test_key(), index).key) ++counts[static_cast<std::size_t>(digit - '0')];
  }
  for (const int count : counts) EXPECT_NEAR(count, 2000, 5 * 42);
}

TEST_F(BytePasskey, TrainingAsksOneToThreeTimesAndWeighsTheAnswers) {
  constexpr std::int64_t context = 256;
  std::vector<std::int32_t> tokens(context + 1);
  std::vector<float> weights(context + 1);
  std::vector<int> asked(4);
  for (std::uint64_t index = 0; index < 600; ++index) {
    maker_.training_sample(context, test_key(), index, tokens.data(), weights.data());
    const std::string text = bytes_->decode(tokens);
    ASSERT_EQ(text.size(), 257u);
    const std::string key = text.substr(text.size() - 5);
    const std::size_t asks = occurrences(text, "What is it? The pass key is #" + key);
    ASSERT_GE(asks, 1u);
    ASSERT_LE(asks, 3u);
    ++asked[asks];
    EXPECT_EQ(occurrences(text, "#" + key), asks + 1) << text;
    const std::size_t statement = text.find("#" + key) + 1;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const bool answer = text[i] >= '0' && text[i] <= '9' && i >= statement + 5;
      ASSERT_EQ(weights[i], answer ? PasskeyMaker::digit_weight : 1.0f) << i << " of " << text;
    }
  }
  for (int asks = 1; asks <= 3; ++asks) EXPECT_NEAR(asked[static_cast<std::size_t>(asks)], 200, 5 * 12);
}

TEST_F(BytePasskey, TrainingFitsTheShortestContext) {
  const std::int64_t context = maker_.shortest() - 1;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(context + 1));
  std::vector<float> weights(tokens.size());
  for (std::uint64_t index = 0; index < 20; ++index) {
    maker_.training_sample(context, test_key(), index, tokens.data(), weights.data());
    EXPECT_EQ(bytes_->decode(tokens).find(" The pass key is #"), 0u);
  }
}

TEST_F(BytePasskey, RefusesALengthBelowTheShortest) {
  EXPECT_THROW(maker_.prompt(maker_.shortest() - 1, 0, test_key(), 0), Error);
}

TEST(Passkey, SpellsOneTokenADigitThroughSentencePiece) {
  std::string text = invented_text(20000);
  for (int i = 0; i < 300; ++i) text += " The pass key is in the room. It was 1907 and 40961 birds flew south.\n";
  const auto tokenizer = make_sentencepiece_tokenizer(train_sentencepiece({text}, 500), "trained");
  const PasskeyMaker maker(tokenizer.get(), 500);
  EXPECT_LT(maker.shortest(), 57);
  for (std::uint64_t index = 0; index < 50; ++index) {
    const PasskeyPrompt prompt = maker.prompt(300, 0.5, test_key(), index);
    ASSERT_EQ(prompt.tokens.size(), 300u);
    ASSERT_EQ(prompt.answers.size(), 5u);
    EXPECT_EQ(prompt.answers.back(), 299);
    const std::string decoded = tokenizer->decode(prompt.tokens);
    EXPECT_TRUE(decoded.ends_with(" What is it? The pass key is #" + prompt.key)) << decoded;
    EXPECT_EQ(occurrences(decoded, " The pass key is #" + prompt.key), 2u) << decoded;
  }
}

TEST(Passkey, IsMadeOfIdsWithoutATokenizer) {
  for (const std::int64_t vocabulary : {64, 257, 50304}) {
    const PasskeyMaker maker(nullptr, vocabulary);
    const PasskeyPrompt prompt = maker.prompt(500, 0.5, test_key(), 1);
    ASSERT_EQ(prompt.tokens.size(), 500u);
    for (const auto id : prompt.tokens) {
      EXPECT_GE(id, 0);
      EXPECT_LT(id, vocabulary);
    }
    // The answer stands in the prompt once more, behind the same mark.
    const auto answer = prompt.tokens.end() - 6;
    const auto stated = std::search(prompt.tokens.begin(), answer, answer, prompt.tokens.end());
    EXPECT_NE(stated, answer);
  }
  const PasskeyMaker impossible(nullptr, 63);
  EXPECT_THAT(impossible.obstacle(), testing::HasSubstr("64"));
  EXPECT_GT(impossible.shortest(), std::int64_t{1} << 60);
}

// As a GPT-like tokenizer may: two digits are one token.
class PairedDigits final : public Tokenizer {
 public:
  std::int64_t vocabulary() const override { return 400; }
  std::int32_t end_of_document() const override { return 0; }
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool joined = i + 1 < text.size() && text[i] == '#' && text[i + 1] >= '0' && text[i + 1] <= '9';
      ids.push_back(joined ? 300 + text[++i] : text[i]);
    }
    return ids;
  }
  std::string decode(const std::vector<std::int32_t>&) const override { return ""; }
  const std::string& name() const override { return name_; }
  std::uint64_t fingerprint() const override { return 1; }

 private:
  std::string name_ = "paired";
};

TEST(Passkey, SaysWhyATokenizerCannotSpellIt) {
  const PairedDigits tokenizer;
  const PasskeyMaker maker(&tokenizer, 400);
  EXPECT_THAT(maker.obstacle(), testing::HasSubstr("paired"));
  EXPECT_GT(maker.shortest(), std::int64_t{1} << 60);
  EXPECT_THROW(maker.prompt(1000, 0.5, test_key(), 0), Error);
}

}  // namespace
}  // namespace longwave
