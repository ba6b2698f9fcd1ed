#include "core/data/tokenizer.h"

#include <gtest/gtest.h>

#include "tests/unit/data/invented_text.h"
#include "tests/unit/data/refusal.h"
#include "tests/unit/data/scratch_folder.h"

namespace longwave {
namespace {

TEST(ByteTokenizer, GivesEveryByteBack) {
  const auto tokenizer = open_tokenizer("bytes");
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  const auto ids = tokenizer->encode(text);
  ASSERT_EQ(ids.size(), 256u);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(ids[static_cast<std::size_t>(byte)], byte);
  EXPECT_EQ(tokenizer->decode(ids), text);
  EXPECT_EQ(tokenizer->end_of_document(), 256);
  EXPECT_EQ(tokenizer->vocabulary(), 257);
  EXPECT_EQ(tokenizer->decode({104, 105, 256, -1, 400}), "hi");
}

TEST(Tokenizer, NoneIsNull) { EXPECT_EQ(open_tokenizer("none"), nullptr); }

TEST(Tokenizer, RefusesAMissingModel) {
  expect_refusal(ExitCode::data, {"no/such.model", "SentencePiece"}, [] { open_tokenizer("no/such.model"); });
}

TEST(Tokenizer, RefusesAForeignModel) {
  const ScratchFolder folder;
  const std::string path = folder.write("a.model", "this is no model");
  expect_refusal(ExitCode::data, {path, "not a SentencePiece model"}, [&] { open_tokenizer(path); });
  const std::string empty = folder.write("empty.model", "");
  expect_refusal(ExitCode::data, {empty}, [&] { open_tokenizer(empty); });
}

class TrainedTokenizer : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string text = invented_text(20000);
    model_ = train_sentencepiece({text}, 400);
  }
  static std::string model_;
};
std::string TrainedTokenizer::model_;

TEST_F(TrainedTokenizer, GivesEveryTextBack) {
  const auto tokenizer = make_sentencepiece_tokenizer(model_, "trained");
  EXPECT_EQ(tokenizer->vocabulary(), 400);
  const std::string known = invented_text(500);
  EXPECT_LT(tokenizer->encode(known).size(), known.size() / 2);
  for (const std::string& text : {known, std::string("  two  spaces\n\n\ttab, caf\xc3\xa9 \xe2\x82\xac 12345 "), std::string("x"),
                                  std::string(" leading"), std::string("trailing ")}) {
    const auto ids = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(ids), text);
    for (const auto id : ids) {
      EXPECT_GE(id, 0);
      EXPECT_LT(id, tokenizer->vocabulary());
    }
  }
}

TEST_F(TrainedTokenizer, EndsADocumentWithItsEndPiece) {
  const auto tokenizer = make_sentencepiece_tokenizer(model_, "trained");
  auto ids = tokenizer->encode("the river");
  ids.push_back(tokenizer->end_of_document());
  EXPECT_EQ(tokenizer->decode(ids), "the river");
}

TEST_F(TrainedTokenizer, SpellsNumbersByDigit) {
  const auto tokenizer = make_sentencepiece_tokenizer(model_, "trained");
  EXPECT_EQ(tokenizer->encode("#12345").size() - tokenizer->encode("#").size(), 5u);
}

TEST_F(TrainedTokenizer, IsTheSameWhenTrainedAgain) {
  const std::string text = invented_text(20000);
  EXPECT_EQ(train_sentencepiece({text}, 400), model_);
  EXPECT_NE(make_sentencepiece_tokenizer(model_, "a")->fingerprint(), open_tokenizer("bytes")->fingerprint());
}

TEST(TrainSentencePiece, RefusesAVocabularyTheTextCannotCarry) {
  const std::string text = "too short a text\n";
  expect_refusal(ExitCode::configuration, {"--train-tokenizer 5000", "at most", "pieces"},
                 [&] { train_sentencepiece({text}, 5000); });
  expect_refusal(ExitCode::configuration, {"--train-tokenizer 12"}, [&] { train_sentencepiece({text}, 12); });
}

}  // namespace
}  // namespace longwave
