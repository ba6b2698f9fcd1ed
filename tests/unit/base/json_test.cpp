#include "core/base/json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>

#include "core/base/error.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/file_size_limit.h"
#include "tests/unit/temporary_directory.h"

namespace longwave {
namespace {

void put(const std::string& path, const std::string& text) { write_file_atomically(path, text); }

TEST(Json, IsOneLineWhateverItHolds) {
  Json json;
  json["b"] = "two\nlines \xff";
  json["a"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(to_line(json), "{\"b\":\"two\\nlines \xef\xbf\xbd\",\"a\":null}");
}

TEST(Json, KeepsADoubleToTheLastBit) {
  const double value = 0.1 + 0.2;
  EXPECT_EQ(Json::parse(to_line(Json{{"x", value}})).at("x").get<double>(), value);
}

TEST(Json, FilesThatAreMissingOrMalformedAreBadData) {
  TemporaryDirectory folder;
  EXPECT_ERROR(read_json(folder / "a"), ExitCode::data, folder / "a");
  put(folder / "a", "{\"x\": ");
  EXPECT_ERROR(read_json(folder / "a"), ExitCode::data, folder / "a: not valid JSON");
  EXPECT_ERROR(read_fields(Json{{"x", "text"}}, "F", [](const Json& json) { json.at("x").get<int>(); }), ExitCode::data, "F: ");
  EXPECT_ERROR(read_fields(Json{{"x", 1}}, "F", [](const Json& json) { json.at("y"); }), ExitCode::data, "F: ");
}

TEST(Json, FilesAreWrittenWholeForPeople) {
  TemporaryDirectory folder;
  write_json_atomically(folder / "a", Json{{"x", 1}});
  EXPECT_EQ(read_file(folder / "a"), "{\n  \"x\": 1\n}\n");
}

TEST(JsonLines, AreReadBackInOrder) {
  TemporaryDirectory folder;
  JsonLines lines(folder / "a");
  EXPECT_TRUE(read_json_lines(folder / "a").empty());
  for (int i = 0; i < 3; ++i) lines.append({{"step", i}});
  JsonLines(folder / "a").append({{"step", 3}});
  const auto objects = read_json_lines(folder / "a");
  ASSERT_EQ(objects.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(objects[static_cast<std::size_t>(i)]["step"], i);
}

TEST(JsonLines, LeaveOutATornLastLineAndCutItOffBeforeGoingOn) {
  TemporaryDirectory folder;
  for (const std::string& torn : {std::string("{\"st"), std::string("{\"step\":12}"), std::string(5, '\0')}) {
    put(folder / "a", "{\"step\":1}\n" + torn);
    EXPECT_EQ(read_json_lines(folder / "a").size(), 1u);
    JsonLines(folder / "a").append({{"step", 2}});
    EXPECT_EQ(read_file(folder / "a"), "{\"step\":1}\n{\"step\":2}\n");
  }
  put(folder / "a", "{\"only");
  EXPECT_TRUE(read_json_lines(folder / "a").empty());
  JsonLines(folder / "a").append({{"step", 1}});
  EXPECT_EQ(read_file(folder / "a"), "{\"step\":1}\n");
}

TEST(JsonLines, NameALineThatIsNoObject) {
  TemporaryDirectory folder;
  for (const char* bad : {"nonsense", "", "[1]", "3"}) {
    put(folder / "a", std::string("{\"step\":1}\n") + bad + "\n{\"step\":2}\n");
    EXPECT_ERROR(read_json_lines(folder / "a"), ExitCode::data, folder / "a:2: not a JSON object");
  }
}

TEST(JsonLines, LeaveNoHalfLineOnAFullDisk) {
  TemporaryDirectory folder;
  JsonLines lines(folder / "a");
  lines.append({{"step", 1}});
  {
    const FileSizeLimit limit(30);
    EXPECT_ERROR(lines.append({{"message", std::string(100, 'x')}}), ExitCode::io, folder / "a");
  }
  EXPECT_EQ(read_file(folder / "a"), "{\"step\":1}\n");
  lines.append({{"step", 2}});
  EXPECT_EQ(read_json_lines(folder / "a").size(), 2u);

  std::filesystem::create_symlink("/dev/full", folder / "full");
  EXPECT_ERROR(JsonLines(folder / "full").append({{"step", 1}}), ExitCode::io, "full): No space left on device; free some space");
}

TEST(JsonLines, KeepOnlyTheBeginningThatIsWanted) {
  TemporaryDirectory folder;
  JsonLines lines(folder / "a");
  for (int i = 0; i < 5; ++i) lines.append({{"step", i}});
  lines.keep_while([](const Json& line) { return line["step"] <= 2; });
  lines.append({{"step", 30}});
  EXPECT_EQ(read_file(folder / "a"), "{\"step\":0}\n{\"step\":1}\n{\"step\":2}\n{\"step\":30}\n");
  lines.keep_while([](const Json&) { return true; });
  EXPECT_EQ(read_json_lines(folder / "a").size(), 4u);
  lines.keep_while([](const Json&) { return false; });
  EXPECT_EQ(read_file(folder / "a"), "");
}

}  // namespace
}  // namespace longwave
