#include "core/data/token_shard.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/data/invented_text.h"
#include "tests/unit/data/refusal.h"
#include "tests/unit/data/scratch_folder.h"

namespace longwave {
namespace {

std::string make_shard(const ScratchFolder& folder, const std::vector<std::vector<std::int32_t>>& documents,
                       std::int64_t vocabulary, const Tokenizer* tokenizer = nullptr) {
  const std::string path = folder.path("a.lwtok");
  TokenShardWriter writer(path, vocabulary, tokenizer);
  for (const auto& document : documents) writer.append(document);
  writer.finish();
  writer.commit();
  return path;
}

std::vector<std::int32_t> counting(std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % vocabulary);
  return ids;
}

void flip_bit(const std::string& path, std::streamoff offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const char byte = static_cast<char>(file.get() ^ 4);
  file.seekp(offset);
  file.put(byte);
}

std::vector<std::int32_t> read_all(const TokenSource& source) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(source.size()));
  source.read(0, source.size(), ids.data());
  return ids;
}

TEST(TokenShard, GivesItsTokensAndDocumentsBack) {
  for (const std::int64_t vocabulary : {257, 65536, 65537, 200000}) {
    const ScratchFolder folder;
    const auto first = counting(700'001, vocabulary);  // more than one block of either width
    const auto second = counting(5, vocabulary);
    const TokenShard shard(MappedFile(make_shard(folder, {first, second}, vocabulary)), nullptr, 0);
    EXPECT_EQ(shard.size(), 700'006);
    EXPECT_EQ(shard.vocabulary(), vocabulary);
    EXPECT_EQ(shard.document_ends(), (std::vector<std::int64_t>{700'001, 700'006}));
    auto expected = first;
    expected.insert(expected.end(), second.begin(), second.end());
    EXPECT_EQ(read_all(shard), expected);
    std::int32_t some[3];
    shard.read(524'287, 3, some);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(some[i], expected[static_cast<std::size_t>(524'287 + i)]);
  }
}

TEST(TokenShard, NamesFileAndOffsetOfACorruptedBlock) {
  const ScratchFolder folder;
  const std::string path = make_shard(folder, {counting(1'200'000, 60'000)}, 60'000);  // blocks of 524288 tokens
  flip_bit(path, 64 + 1'048'576 + 77);
  const TokenShard shard(MappedFile(path), nullptr, 0);
  std::vector<std::int32_t> ids(600'000);
  shard.read(0, 524'288, ids.data());
  shard.read(1'048'576, 100'000, ids.data());
  for (int attempt = 0; attempt < 2; ++attempt) {  // a refused block stays refused
    expect_refusal(ExitCode::data, {path, "corrupted", "1048640"}, [&] { shard.read(524'288, 1, ids.data()); });
  }
  expect_refusal(ExitCode::data, {path, "1048640"}, [&] { shard.read(500'000, 100'000, ids.data()); });
}

TEST(TokenShard, RefusesEveryFlippedByteOfItsHeaderAndTables) {
  const ScratchFolder folder;
  const std::string path = make_shard(folder, {counting(13, 50), counting(9, 50)}, 50);
  const std::string good = folder.read("a.lwtok");
  for (std::size_t offset = 0; offset < good.size(); ++offset) {
    if (offset >= 64 + 44 && offset < 64 + 48) continue;  // the padding behind 22 ids means nothing
    flip_bit(path, static_cast<std::streamoff>(offset));
    expect_refusal(ExitCode::data, {path}, [&] {
      const TokenShard shard(MappedFile(path), nullptr, 0);
      read_all(shard);
      shard.document_ends();
    });
    flip_bit(path, static_cast<std::streamoff>(offset));
  }
  EXPECT_EQ(folder.read("a.lwtok"), good);
}

TEST(TokenShard, RefusesEveryTruncation) {
  const ScratchFolder folder;
  const std::string path = make_shard(folder, {counting(20, 50)}, 50);
  const std::string good = folder.read("a.lwtok");
  for (std::size_t size = 1; size < good.size(); ++size) {
    folder.write("a.lwtok", good.substr(0, size));
    expect_refusal(ExitCode::data, {path, "truncated"}, [&] { TokenShard(MappedFile(path), nullptr, 0); });
  }
  folder.write("a.lwtok", good + "more");
  expect_refusal(ExitCode::data, {path, "too long"}, [&] { TokenShard(MappedFile(path), nullptr, 0); });
}

TEST(TokenShard, RefusesAnIdOutsideOfTheModelsVocabulary) {
  const ScratchFolder folder;
  const std::string path = make_shard(folder, {counting(400, 300)}, 300);
  const TokenShard shard(MappedFile(path), nullptr, 257);
  std::int32_t id;
  expect_refusal(ExitCode::data, {path, "token 257", "byte offset 578", "id 257", "257"}, [&] { shard.read(0, 1, &id); });
}

TEST(TokenShard, RefusesAnotherTokenizer) {
  const ScratchFolder folder;
  const auto bytes = open_tokenizer("bytes");
  const std::string path = make_shard(folder, {counting(400, 256)}, 257, bytes.get());
  EXPECT_EQ(TokenShard(MappedFile(path), bytes.get(), 257).size(), 400);
  EXPECT_EQ(TokenShard(MappedFile(path), nullptr, 257).size(), 400);
  const std::string text = invented_text(5000);
  const auto other = make_sentencepiece_tokenizer(train_sentencepiece({text}, 300), "other.model");
  expect_refusal(ExitCode::data, {path, "another tokenizer", "other.model"},
                 [&] { TokenShard(MappedFile(path), other.get(), 0); });
}

TEST(TokenShardWriter, LeavesNothingWithoutCommit) {
  const ScratchFolder folder;
  {
    TokenShardWriter writer(folder.path("a.lwtok"), 100, nullptr);
    writer.append(counting(50, 100));
    writer.finish();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TokenShardWriter, RefusesAnIdOutsideOfItsVocabulary) {
  const ScratchFolder folder;
  TokenShardWriter writer(folder.path("a.lwtok"), 100, nullptr);
  expect_refusal(ExitCode::data, {"id 100", "token 2"}, [&] { writer.append({1, 2, 100}); });
}

TEST(TokenShardWriter, KnowsAnEqualFile) {
  const ScratchFolder folder;
  make_shard(folder, {counting(50, 100)}, 100);
  TokenShardWriter same(folder.path("a.lwtok"), 100, nullptr);
  same.append(counting(50, 100));
  same.finish();
  EXPECT_TRUE(same.equals_existing());
  TokenShardWriter other(folder.path("a.lwtok"), 100, nullptr);
  other.append(counting(49, 100));
  other.finish();
  EXPECT_FALSE(other.equals_existing());
}

}  // namespace
}  // namespace longwave
