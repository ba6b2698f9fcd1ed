#include "jobs/prepare.h"

#include <gtest/gtest.h>

#include <set>

#include "core/data/token_shard.h"
#include "core/data/token_source.h"
#include "tests/unit/data/invented_text.h"
#include "tests/unit/data/refusal.h"
#include "tests/unit/data/scratch_folder.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& shard, const Tokenizer& tokenizer) {
  const auto source = open_token_source(shard, &tokenizer, {});
  std::vector<std::int32_t> ids(static_cast<std::size_t>(source->size()));
  source->read(0, source->size(), ids.data());
  std::string text;
  std::vector<std::int32_t> document;
  for (const auto id : ids) {
    if (id != tokenizer.end_of_document()) {
      document.push_back(id);
      continue;
    }
    text += tokenizer.decode(document) + "|";
    document.clear();
  }
  EXPECT_TRUE(document.empty()) << "the last document has no end";
  return text;
}

class Prepare : public testing::Test {
 protected:
  Prepare() {
    for (const char* name : {"a", "b", "c"}) folder_.write(std::string("in/") + name + ".txt", std::string("text ") + name);
    arguments_.inputs = {folder_.path("in")};
    arguments_.output = folder_.path("out");
  }
  std::set<std::string> output_names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path("out"))) names.insert(entry.path().filename());
    return names;
  }
  void expect_refused(ExitCode code, const std::vector<std::string>& words) {
    expect_refusal(code, words, [&] { run_prepare(arguments_); });
    EXPECT_FALSE(fs::exists(arguments_.output)) << "something half made is left";
  }

  ScratchFolder folder_;
  std::unique_ptr<Tokenizer> bytes_ = open_tokenizer("bytes");
  PrepareArguments arguments_;
};

TEST_F(Prepare, MakesOneDocumentOfEveryFile) {
  EXPECT_EQ(run_prepare(arguments_), ExitCode::done);
  EXPECT_EQ(output_names(), (std::set<std::string>{"train.lwtok"}));
  EXPECT_EQ(text_of(folder_.path("out/train.lwtok"), *bytes_), "text a|text b|text c|");
  EXPECT_EQ(TokenShard(MappedFile(folder_.path("out/train.lwtok")), bytes_.get(), 257).document_ends(),
            (std::vector<std::int64_t>{7, 14, 21}));
}

TEST_F(Prepare, WritesASingleFile) {
  arguments_.output = folder_.path("deep/er/one.lwtok");
  run_prepare(arguments_);
  EXPECT_EQ(text_of(arguments_.output, *bytes_), "text a|text b|text c|");
}

TEST_F(Prepare, TakesAFileOnceAndHoldsOutWhatIsNamed) {
  arguments_.inputs.push_back(folder_.path("in/../in/a.txt"));
  arguments_.validation = {folder_.path("in/b*")};
  run_prepare(arguments_);
  EXPECT_EQ(text_of(folder_.path("out/train.lwtok"), *bytes_), "text a|text c|");
  EXPECT_EQ(text_of(folder_.path("out/validation.lwtok"), *bytes_), "text b|");
}

TEST_F(Prepare, HoldsOutAShareInWholeDocuments) {
  for (int i = 0; i < 100; ++i) folder_.write("in/more-" + std::to_string(i) + ".txt", std::string(100, 'x'));
  arguments_.validation_share = 0.2;
  run_prepare(arguments_);
  const auto held = open_token_source(folder_.path("out/validation.lwtok"), bytes_.get(), {})->size();
  const auto kept = open_token_source(folder_.path("out/train.lwtok"), bytes_.get(), {})->size();
  EXPECT_EQ(held + kept, 100 * 101 + 21);
  EXPECT_NEAR(static_cast<double>(held), 0.2 * static_cast<double>(held + kept), 110);
}

TEST_F(Prepare, CutsShardsBetweenDocuments) {
  arguments_.shard_tokens = 15;
  run_prepare(arguments_);
  EXPECT_EQ(output_names(), (std::set<std::string>{"train-00000.lwtok", "train-00001.lwtok"}));
  EXPECT_EQ(text_of(folder_.path("out/train-00000.lwtok"), *bytes_), "text a|text b|");
  EXPECT_EQ(text_of(folder_.path("out"), *bytes_), "text a|text b|text c|");
}

TEST_F(Prepare, UnwrapsWhenAsked) {
  folder_.write("in/a.txt", "a line that ends here\r\nand goes on over here\r\n");
  arguments_.unwrap = true;
  run_prepare(arguments_);
  EXPECT_EQ(text_of(folder_.path("out/train.lwtok"), *bytes_),
            "a line that ends here and goes on over here\n|text b\n|text c\n|");
}

TEST_F(Prepare, LeavesEqualOutputAloneAndRefusesToReplaceOther) {
  run_prepare(arguments_);
  const auto written = fs::last_write_time(folder_.path("out/train.lwtok"));
  EXPECT_EQ(run_prepare(arguments_), ExitCode::done);
  EXPECT_EQ(fs::last_write_time(folder_.path("out/train.lwtok")), written);

  folder_.write("in/d.txt", "text d");
  expect_refusal(ExitCode::configuration, {folder_.path("out/train.lwtok"), "--force"}, [&] { run_prepare(arguments_); });
  EXPECT_EQ(text_of(folder_.path("out/train.lwtok"), *bytes_), "text a|text b|text c|");
  EXPECT_EQ(output_names().size(), 1u);

  arguments_.force = true;
  run_prepare(arguments_);
  EXPECT_EQ(text_of(folder_.path("out/train.lwtok"), *bytes_), "text a|text b|text c|text d|");
}

TEST_F(Prepare, LeavesNoShardOfALongerSetBehind) {
  arguments_.shard_tokens = 7;
  run_prepare(arguments_);
  EXPECT_EQ(output_names().size(), 3u);
  arguments_.shard_tokens = 14;
  expect_refusal(ExitCode::configuration, {"--force"}, [&] { run_prepare(arguments_); });
  EXPECT_EQ(output_names().size(), 3u);
  arguments_.force = true;
  run_prepare(arguments_);
  EXPECT_EQ(text_of(folder_.path("out"), *bytes_), "text a|text b|text c|");
}

TEST_F(Prepare, TrainsATokenizerOnTheTrainingSideAlone) {
  folder_.write("in/a.txt", invented_text(20000));
  folder_.write("held.txt", invented_text(3000, 8) + " \xe2\x98\x83\n");
  arguments_.validation = {folder_.path("held.txt")};
  arguments_.train_tokenizer = 500;
  run_prepare(arguments_);
  const auto tokenizer = open_tokenizer(folder_.path("out/tokenizer.model"));
  EXPECT_EQ(tokenizer->vocabulary(), 500);
  EXPECT_EQ(text_of(folder_.path("out/train.lwtok"), *tokenizer), invented_text(20000) + "|text b|text c|");
  EXPECT_EQ(text_of(folder_.path("out/validation.lwtok"), *tokenizer), folder_.read("held.txt") + "|");
  EXPECT_EQ(run_prepare(arguments_), ExitCode::done) << "a tokenizer trained again is the same";
}

TEST_F(Prepare, RefusesBadInputBeforeItWritesAnything) {
  folder_.write("in/d.txt", "");
  expect_refused(ExitCode::data, {"in/d.txt", "empty"});
  folder_.write("in/d.txt", std::string("ab\0cd", 5));
  expect_refused(ExitCode::data, {"in/d.txt", "NUL", "offset 2"});
  folder_.write("in/d.txt", std::string(10000, 'x') + '\0');  // found only when it is read: after others were written
  expect_refused(ExitCode::data, {"in/d.txt", "NUL", "offset 10000"});
  folder_.write("in/d.txt", "\x1f\x8b broken");
  expect_refused(ExitCode::data, {"in/d.txt", "gzip"});
  arguments_.inputs = {folder_.path("nowhere/*.txt")};
  expect_refused(ExitCode::data, {"nowhere", "no file matches"});
}

TEST_F(Prepare, RefusesArgumentsThatContradict) {
  arguments_.validation = {folder_.path("in")};
  expect_refused(ExitCode::configuration, {"nothing is left to train on"});
  arguments_.validation_share = 0.5;
  expect_refused(ExitCode::configuration, {"--validation", "one of them"});
  arguments_.validation.clear();
  arguments_.validation_share = 1.5;
  expect_refused(ExitCode::configuration, {"--validation-share 1.5"});
  arguments_.validation_share = 0;
  arguments_.train_tokenizer = 500;
  arguments_.tokenizer = "some.model";
  expect_refused(ExitCode::configuration, {"--train-tokenizer"});
  arguments_.train_tokenizer = 0;
  arguments_.tokenizer = "none";
  expect_refused(ExitCode::configuration, {"--tokenizer none"});
  arguments_.tokenizer = "bytes";
  arguments_.shard_tokens = 100;
  arguments_.output = folder_.path("one.lwtok");
  expect_refused(ExitCode::configuration, {"one.lwtok", "folder"});
}

}  // namespace
}  // namespace longwave
