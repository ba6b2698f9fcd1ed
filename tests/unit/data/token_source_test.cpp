#include "core/data/token_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstring>

#include "core/data/token_shard.h"
#include "tests/unit/data/refusal.h"
#include "tests/unit/data/scratch_folder.h"

namespace longwave {
namespace {

template <class Id>
std::string as_bytes(const std::vector<Id>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(Id)};
}

std::string llmc_file(const std::vector<std::uint16_t>& ids, std::int32_t version = 1) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = version;
  header[2] = static_cast<std::int32_t>(ids.size());
  return as_bytes(header) + as_bytes(ids);
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::vector<std::int32_t> read_all(const TokenSource& source) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(source.size()));
  source.read(0, source.size(), ids.data());
  return ids;
}

class OpenTokenSource : public testing::Test {
 protected:
  std::unique_ptr<TokenSource> open(const std::string& path, const SourceOptions& options = {}) const {
    return open_token_source(path, bytes_.get(), options);
  }
  void expect_refused(const std::vector<std::string>& words, const std::string& path, const SourceOptions& options = {}) const {
    auto all = words;
    all.push_back(path);
    expect_refusal(ExitCode::data, all, [&] { open(path, options); });
  }

  ScratchFolder folder_;
  std::unique_ptr<Tokenizer> bytes_ = open_tokenizer("bytes");
};

TEST_F(OpenTokenSource, ReadsTextAsOneDocument) {
  EXPECT_EQ(read_all(*open(folder_.write("a.txt", "hi\n"))), (std::vector<std::int32_t>{'h', 'i', '\n', 256}));
}

TEST_F(OpenTokenSource, ReadsGzip) {
  EXPECT_EQ(read_all(*open(folder_.write("a.gz", gzip("hi") + gzip("!")))), (std::vector<std::int32_t>{'h', 'i', '!', 256}));
}

TEST_F(OpenTokenSource, TakesFilesOfAFolderInByteOrder) {
  for (const char* name : {"b.txt", "a/z.txt", "B.txt", "a.txt", "10.txt", "9.txt"})
    folder_.write(std::string("d/") + name, name);
  folder_.write("d/.hidden", "x");
  folder_.write("d/.git/x.txt", "x");
  const auto source = open(folder_.path("d"));
  auto ids = read_all(*source);
  std::string text;
  for (const auto id : ids) text += id == 256 ? '|' : static_cast<char>(id);
  EXPECT_EQ(text, "10.txt|9.txt|B.txt|a.txt|a/z.txt|b.txt|");
}

TEST_F(OpenTokenSource, ReadsAcrossTheFilesOfAGlob) {
  folder_.write("train-0.bin", llmc_file({1, 2, 3}));
  folder_.write("train-1.bin", llmc_file({4}));
  folder_.write("train-2.bin", llmc_file({5, 6}));
  folder_.write("other.bin", llmc_file({9}));
  const auto source = open(folder_.path("train-*.bin"));
  EXPECT_EQ(source->size(), 6);
  std::int32_t ids[4];
  source->read(1, 4, ids);
  EXPECT_EQ(std::vector<std::int32_t>(ids, ids + 4), (std::vector<std::int32_t>{2, 3, 4, 5}));
  source->read(6, 0, ids);
}

TEST_F(OpenTokenSource, ReadsHeaderlessIds) {
  const std::string narrow = folder_.write("a.bin", as_bytes<std::uint16_t>({7, 65535, 0}));
  EXPECT_EQ(read_all(*open(narrow, {"uint16", 0})), (std::vector<std::int32_t>{7, 65535, 0}));
  const std::string wide = folder_.write("b.npy", as_bytes<std::uint32_t>({7, 100000, 0}));
  EXPECT_EQ(read_all(*open(wide, {"uint32", 0})), (std::vector<std::int32_t>{7, 100000, 0}));
}

TEST_F(OpenTokenSource, RefusesWhatIsNotThere) {
  expect_refused({"no such file or folder"}, folder_.path("a.txt"));
  expect_refused({"no file matches"}, folder_.path("*.bin"));
  std::filesystem::create_directory(folder_.path("empty"));
  expect_refused({"no file in this folder"}, folder_.path("empty"));
  expect_refused({"the file is empty"}, folder_.write("e.txt", ""));
  expect_refused({"holds no text"}, folder_.write("e.gz", gzip("")));
}

TEST_F(OpenTokenSource, RefusesForeignFiles) {
  expect_refused({"neither text nor a token file", "data.dtype"}, folder_.write("a.bin", as_bytes<std::uint16_t>({1, 2, 3})));
  expect_refused({"NumPy"}, folder_.write("a.npy", "\x93NUMPY.."), {"uint16", 0});
  expect_refused({"NUL", "offset 5000"}, folder_.write("a.txt", std::string(5000, 'x') + '\0'));
  expect_refused({"version 2"}, folder_.write("v.bin", llmc_file({1}, 2)));
  expect_refusal(ExitCode::data, {"needs a tokenizer"}, [&] { open_token_source(folder_.write("t.txt", "hello"), nullptr, {}); });
}

TEST_F(OpenTokenSource, RefusesTruncatedFiles) {
  const std::string llmc = llmc_file({1, 2, 3});
  expect_refused({"truncated", "3 uint16 tokens", "1030", "1029"}, folder_.write("a.bin", llmc.substr(0, llmc.size() - 1)));
  expect_refused({"truncated"}, folder_.write("b.bin", llmc.substr(0, 100)));
  expect_refused({"too long"}, folder_.write("c.bin", llmc + "xx"));
  expect_refused({"multiple of 2"}, folder_.write("d.bin", "abc"), {"uint16", 0});
  expect_refused({"multiple of 4"}, folder_.write("e.bin", "abcdef"), {"uint32", 0});
  const std::string compressed = gzip(std::string(10000, 'a') + "the end");
  expect_refused({"gzip stream breaks off"}, folder_.write("f.gz", compressed.substr(0, compressed.size() - 9)));
  std::string damaged = compressed;
  damaged[damaged.size() - 6] ^= 1;
  expect_refused({"gzip stream breaks off"}, folder_.write("g.gz", damaged));
}

TEST_F(OpenTokenSource, NamesTheOffsetOfAnIdOutOfRange) {
  const std::string llmc = folder_.write("a.bin", llmc_file({1, 2, 300, 4}));
  const auto source = open(llmc, {"", 257});
  std::int32_t ids[4];
  source->read(0, 2, ids);
  source->read(3, 1, ids);
  expect_refusal(ExitCode::data, {llmc, "token 2", "byte offset 1028", "id 300"}, [&] { source->read(1, 3, ids); });
  const std::string wide = folder_.write("b.bin", as_bytes<std::uint32_t>({1, 0xffffffffu}));
  const auto unbounded = open(wide, {"uint32", 0});
  expect_refusal(ExitCode::data, {wide, "token 1", "4294967295"}, [&] { unbounded->read(0, 2, ids); });
}

TEST_F(OpenTokenSource, ReadsPastFourGibibytes) {
  // A sparse file: 2.5e9 tokens in 5e9 bytes, of which a few blocks are on disk.
  const std::string path = folder_.path("big.bin");
  const int descriptor = ::open(path.c_str(), O_CREAT | O_WRONLY, 0644);
  ASSERT_GE(descriptor, 0);
  const std::int64_t tokens = 2'500'000'000;
  ASSERT_EQ(ftruncate(descriptor, tokens * 2), 0);
  const std::uint16_t mark[2] = {11, 12};
  const std::int64_t past_bytes = (std::int64_t{1} << 32) / 2 + 5, past_tokens = (std::int64_t{1} << 31) + 9;
  ASSERT_EQ(pwrite(descriptor, mark, 4, past_bytes * 2), 4);
  ASSERT_EQ(pwrite(descriptor, mark, 4, past_tokens * 2), 4);
  ASSERT_EQ(pwrite(descriptor, mark, 4, (tokens - 2) * 2), 4);
  close(descriptor);
  folder_.write("small.bin", as_bytes<std::uint16_t>({21, 22}));
  const auto source = open(folder_.path("*.bin"), {"uint16", 0});
  ASSERT_EQ(source->size(), tokens + 2);
  for (const std::int64_t at : {past_bytes, past_tokens}) {
    std::int32_t ids[3];
    source->read(at, 3, ids);
    EXPECT_EQ(std::vector<std::int32_t>(ids, ids + 3), (std::vector<std::int32_t>{11, 12, 0}));
  }
  std::int32_t ids[4];
  source->read(tokens - 2, 4, ids);
  EXPECT_EQ(std::vector<std::int32_t>(ids, ids + 4), (std::vector<std::int32_t>{11, 12, 21, 22}));
}

TEST_F(OpenTokenSource, RefusesToReadPastTheEnd) {
  const auto source = open(folder_.write("a.txt", "hi"));
  std::int32_t ids[8];
  EXPECT_THROW(source->read(2, 2, ids), Error);
  EXPECT_THROW(source->read(-1, 1, ids), Error);
}

}  // namespace
}  // namespace longwave
