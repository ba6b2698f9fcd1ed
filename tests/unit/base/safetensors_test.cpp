#include "core/base/safetensors.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/file_size_limit.h"
#include "tests/unit/temporary_directory.h"

namespace longwave {
namespace {

template <class T> void write_all(SafetensorsWriter& writer, const std::string& name, const std::vector<T>& values) {
  writer.write(name, values.data(), values.size() * sizeof(T));
}

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 0.25f * static_cast<float>(i) - 1;
  return values;
}

// A file with every dtype, a scalar, an empty tensor and a name that must be escaped.
void write_sample(const std::string& path) {
  SafetensorsWriter writer(path,
                           {{"half \"quoted\" \u00e9", DType::bf16, {3}},
                            {"matrix", DType::f32, {4, 3}},
                            {"empty", DType::f32, {0, 7}},
                            {"frequencies", DType::f64, {2}},
                            {"scalar", DType::i32, {}}},
                           {{"format", "pt"}, {"step", "12"}});
  const std::vector<float> matrix = counting(12);
  writer.write("matrix", matrix.data() + 6, 24, 24);  // in pieces, out of order
  writer.write("matrix", matrix.data(), 24, 0);
  write_all<std::int32_t>(writer, "scalar", {-7});
  write_all<double>(writer, "frequencies", {1.0 / 3, 1e-300});
  write_all<bf16>(writer, "half \"quoted\" \u00e9", {bf16(1.5f), bf16(-0.0f), bf16(3.140625f)});
  writer.commit();
}

std::string output_of(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string text;
  char piece[4096];
  while (const std::size_t count = std::fread(piece, 1, sizeof piece, pipe)) text.append(piece, count);
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return text;
}

TEST(Safetensors, AreReadByAnIndependentReader) {
  TemporaryDirectory folder;
  write_sample(folder / "a.safetensors");
  const auto file = nlohmann::json::parse(
      output_of("python3 " LONGWAVE_SOURCE_DIR "/tests/unit/base/read_safetensors.py " + folder / "a.safetensors"));
  EXPECT_EQ(file["metadata"]["format"], "pt");
  EXPECT_EQ(file["metadata"]["step"], "12");
  const auto& tensors = file["tensors"];
  EXPECT_EQ(tensors.size(), 5u);
  EXPECT_EQ(tensors["matrix"]["shape"], (std::vector<int>{4, 3}));
  EXPECT_EQ(tensors["matrix"]["dtype"], "F32");
  EXPECT_EQ(tensors["matrix"]["values"].get<std::vector<float>>(), counting(12));
  EXPECT_EQ(tensors["frequencies"]["values"].get<std::vector<double>>(), (std::vector<double>{1.0 / 3, 1e-300}));
  EXPECT_EQ(tensors["scalar"]["values"].get<std::vector<int>>(), (std::vector<int>{-7}));
  EXPECT_EQ(tensors["scalar"]["shape"].size(), 0u);
  EXPECT_EQ(tensors["empty"]["shape"], (std::vector<int>{0, 7}));
  EXPECT_EQ(tensors["half \"quoted\" \u00e9"]["values"].get<std::vector<float>>(), (std::vector<float>{1.5f, -0.0f, 3.140625f}));
}

TEST(Safetensors, ReadBackAnyByteRangeAndAnyRows) {
  TemporaryDirectory folder;
  write_sample(folder / "a");
  const SafetensorsFile file(folder / "a");
  EXPECT_EQ(file.metadata().at("step"), "12");
  const SafetensorsEntry& matrix = file.require({"matrix", DType::f32, {4, 3}});
  std::vector<float> rows(6);
  file.read_rows(matrix, 1, 3, rows.data());
  EXPECT_EQ(rows, (std::vector<float>{-.25f, 0, .25f, .5f, .75f, 1}));
  file.read_rows(matrix, 4, 4, nullptr);
  float last = 0;
  file.read(matrix, &last, 4, 44);
  EXPECT_EQ(last, 1.75f);
  std::int32_t scalar = 0;
  file.read(*file.find("scalar"), &scalar);
  EXPECT_EQ(scalar, -7);
  EXPECT_EQ(file.find("matri"), nullptr);
  EXPECT_ERROR(file.read(matrix, &last, 4, 45), ExitCode::bug, "45");
  EXPECT_ERROR(file.read_rows(matrix, 3, 5, rows.data()), ExitCode::bug, "rows [3, 5)");
}

TEST(Safetensors, SayWhatTheFileHasInsteadOfWhatWasRequired) {
  TemporaryDirectory folder;
  write_sample(folder / "a");
  const SafetensorsFile file(folder / "a");
  EXPECT_ERROR(file.require({"lm_head.weight", DType::f32, {1}}), ExitCode::data, "a: there is no tensor lm_head.weight");
  EXPECT_ERROR(file.require({"matrix", DType::f32, {3, 4}}), ExitCode::data, "matrix is F32 [4, 3], expected F32 [3, 4]");
  EXPECT_ERROR(file.require({"matrix", DType::bf16, {4, 3}}), ExitCode::data, "expected BF16 [4, 3]");
}

TEST(Safetensors, AreNotThereUntilCommittedAndWhole) {
  TemporaryDirectory folder;
  {
    SafetensorsWriter writer(folder / "a", {{"x", DType::f32, {2}}});
    writer.write("x", "1234", 4);
    EXPECT_FALSE(std::filesystem::exists(folder / "a"));
    EXPECT_ERROR(writer.commit(), ExitCode::bug, "4 of 8 bytes");
    EXPECT_ERROR(writer.write("y", "1234", 4), ExitCode::bug, "no tensor y");
    EXPECT_ERROR(writer.write("x", "12345678", 8, 1), ExitCode::bug, "of 8 bytes");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_ERROR(SafetensorsWriter(folder / "a", {{"x", DType::f32, {2}}, {"x", DType::f32, {2}}}), ExitCode::bug, "two tensors");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, LeaveNothingOnAFullDisk) {
  TemporaryDirectory folder;
  {
    const FileSizeLimit limit(300);
    EXPECT_ERROR(write_sample(folder / "a"), ExitCode::io, folder / "a");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_ERROR(write_sample(folder / "missing/a"), ExitCode::io, folder / "missing/a");
}

// In the header's length (there every bit), in names, in padding, in the data, and in the checksum itself.
TEST(Safetensors, FindAFlippedBitInAnyByte) {
  TemporaryDirectory folder;
  write_sample(folder / "a");
  SafetensorsFile(folder / "a").verify();
  const std::string good = read_file(folder / "a");
  for (std::size_t bit = 0; bit < 8 * good.size(); bit += bit < 64 ? 1 : 9) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    File::create(folder / "b").write_at(bad.data(), bad.size(), 0);
    EXPECT_ERROR(SafetensorsFile(folder / "b").verify(), ExitCode::data, folder / "b");
    if (HasFailure()) FAIL() << "bit " << bit << " of " << 8 * good.size();
  }
}

TEST(Safetensors, FindEveryTruncationAndAnythingAppended) {
  TemporaryDirectory folder;
  write_sample(folder / "a");
  const std::string good = read_file(folder / "a");
  for (std::size_t size = 0; size < good.size(); ++size) {
    File::create(folder / "b").write_at(good.data(), size, 0);
    EXPECT_ERROR(SafetensorsFile(folder / "b"), ExitCode::data, folder / "b");
  }
  const std::string longer = good + '\0';
  File::create(folder / "b").write_at(longer.data(), longer.size(), 0);
  EXPECT_ERROR(SafetensorsFile(folder / "b"), ExitCode::data, "1 bytes at the end belong to no tensor");
}

TEST(Safetensors, WithoutOurChecksumOpenButDoNotVerify) {
  TemporaryDirectory folder;
  const std::string header = R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::uint64_t length = header.size();
  File file = File::create(folder / "a");
  file.write_at(&length, 8, 0);
  file.write_at((header + "1234").data(), header.size() + 4, 8);
  const SafetensorsFile foreign(folder / "a");
  EXPECT_FALSE(foreign.has_checksum());
  EXPECT_EQ(foreign.tensors().size(), 1u);
  EXPECT_ERROR(foreign.verify(), ExitCode::data, "no checksum");
}

TEST(Safetensors, RefuseAHeaderLongerThanTheFileOrTheLimit) {
  TemporaryDirectory folder;
  for (const std::uint64_t length : {9ull, 100'000'001ull, 1ull << 32, ~0ull}) {
    File file = File::create(folder / "a");
    file.write_at(&length, 8, 0);
    file.write_at("{}      ", 8, 8);
    EXPECT_ERROR(SafetensorsFile(folder / "a"), ExitCode::data, folder / "a");
  }
  EXPECT_ERROR(SafetensorsFile(folder / "missing"), ExitCode::data, folder / "missing: there is no such file");
}

struct Malformed {
  const char* text;
  const char* complaint;
};

// Against eight bytes of data.
const Malformed malformed[] = {
    {"", "not a safetensors file"},
    {" {}", "not a safetensors file"},
    {"[]", "not a safetensors file"},
    {"{", "not valid JSON"},
    {"{}", "8 bytes at the end belong to no tensor"},
    {"{}}", "not valid JSON"},
    {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} {})", "not valid JSON"},
    {R"({"x":1})", "a number where none belongs"},
    {R"({"x":null})", "null where none belongs"},
    {R"({"x":[]})", "a list where none belongs"},
    {R"({"x":{}})", "lacks dtype, shape or data_offsets"},
    {R"({"x":{"dtype":"F32","shape":[2]}})", "lacks"},
    {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})", R"(unknown field "more" of "x")"},
    {R"({"x":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", "shape of \"x\" appears twice"},
    {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
     "\"x\" appears twice"},
    {R"({"x":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}})", R"(dtype "F16" of "x" is not one of)"},
    {R"({"x":{"dtype":4,"shape":[2],"data_offsets":[0,8]}})", "a number where none belongs"},
    {R"({"x":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", "a number where none belongs"},
    {R"({"x":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", "a list where none belongs"},
    {R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "a negative number"},
    {R"({"x":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "no 64-bit integer"},
    {R"({"x":{"dtype":"F32","shape":[2e0],"data_offsets":[0,8]}})", "no 64-bit integer"},
    {R"({"x":{"dtype":"F32","shape":[true],"data_offsets":[0,8]}})", "a boolean"},
    {R"({"x":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8]}})", "no 64-bit integer"},
    {R"({"x":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8]}})", "overflows"},
    {R"({"x":{"dtype":"F32","shape":[4611686018427387904,2],"data_offsets":[0,0]}})", "overflows"},
    {R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "has 8 bytes, its dtype and shape need 12"},
    {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", "ends before it begins"},
    {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", "are 1 numbers, not 2"},
    {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", "are 3 numbers, not 2"},
    {R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", "truncated"},
    {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "bytes [0, 4) belong to no tensor"},
    {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
     "\"y\" overlaps"},
    {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,0]}})", "ends before"},
    {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551611,18446744073709551615]}})", "belong to no tensor"},
    {R"({"__metadata__":{"a":1}})", "a number where none belongs"},
    {R"({"__metadata__":{"a":{}}})", "an object where none belongs"},
    {R"({"__metadata__":"a"})", "a string where none belongs"},
    {R"({"__metadata__":{"a":"1","a":"2"}})", "appears twice"},
    {R"({"__metadata__":{},"__metadata__":{}})", "appears twice"},
    {"{\"\xff\":{}}", "not valid JSON in UTF-8"},
    {"{\"\xc0\xaf\":{}}", "not valid JSON in UTF-8"},
    {"{\"\\ud800\":{}}", "not valid JSON in UTF-8"},
    {"{\"x\n\":{}}", "not valid JSON in UTF-8"},
    {"{\"line\\nbreak\":1}", "a number"},
    {"{} // comment", "not valid JSON"},
};

TEST(SafetensorsHeader, RefusesWhatTheFormatDoesNotAllowInOneLine) {
  for (const Malformed& header : malformed) {
    SCOPED_TRACE(header.text);
    EXPECT_ERROR(parse_safetensors_header(header.text, 8, "F"), ExitCode::data, header.complaint);
  }
  const std::string zero("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}\0junk", 59);
  EXPECT_ERROR(parse_safetensors_header(zero, 8, "F"), ExitCode::data, "not valid JSON");
}

TEST(SafetensorsHeader, RefusesDeepNestingWithoutFollowingIt) {
  for (const char* opening : {"[", "{\"a\":"}) {
    std::string text = "{\"x\":";
    for (int i = 0; i < 1000000; ++i) text += opening;
    EXPECT_ERROR(parse_safetensors_header(text, 8, "F"), ExitCode::data, "F: safetensors header");
  }
}

TEST(SafetensorsHeader, KeepsALongOrOddNameOfTheFileOutOfTheWay) {
  const std::string text = "{\"" + std::string(100000, 'n') + "\\u001b[2J\":1}";
  try {
    parse_safetensors_header(text, 8, "F");
    FAIL();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 250u);
  }
}

TEST(SafetensorsHeader, AcceptsTensorsInAnyOrderAndEmptyOnes) {
  const auto header = parse_safetensors_header(R"({"b":{"data_offsets":[4,8],"shape":[1],"dtype":"I32"},)"
                                               R"("e":{"dtype":"F64","shape":[0],"data_offsets":[4,4]},)"
                                               R"("a":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}}   )", 8, "F");
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].name, "e");
  EXPECT_EQ(header.tensors[2].name, "b");
}

}  // namespace
}  // namespace longwave
