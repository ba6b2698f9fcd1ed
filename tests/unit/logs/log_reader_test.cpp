#include "jobs/logs/log_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/file.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/temporary_directory.h"

namespace longwave {
namespace {

void append(const std::string& path, const std::string& text) { File::append(path).write(text); }

TEST(LogReader, ReadsEachLineOnceAndWaitsForATornOne) {
  TemporaryDirectory folder;
  LogReader reader(folder / "log");
  append(folder / "log", "{\"step\":1}\n{\"step\":2}\n{\"st");
  EXPECT_EQ(reader.next(), (std::vector<Json>{{{"step", 1}}, {{"step", 2}}}));
  EXPECT_TRUE(reader.next().empty());
  append(folder / "log", "ep\":3}\n");
  EXPECT_EQ(reader.next(), (std::vector<Json>{{{"step", 3}}}));
}

TEST(LogReader, NamesAFileThatIsNoLog) {
  TemporaryDirectory folder;
  append(folder / "log", "{\"step\":1}\nnonsense\n");
  EXPECT_ERROR(LogReader(folder / "log").next(), ExitCode::data, folder / "log");
}

TEST(RunLogReader, FindsRanksAsTheyCome) {
  TemporaryDirectory folder;
  make_directories(folder / "logs");
  append(folder / "logs/rank-00000.jsonl", "{\"step\":1}\n");
  append(folder / "logs/rank-x.jsonl", "not a rank's\n");
  RunLogReader reader(folder.path());
  EXPECT_THAT(reader.ranks(), testing::ElementsAre(0));
  EXPECT_EQ(reader.next().size(), 1u);
  append(folder / "logs/rank-00012.jsonl", "{\"step\":7}\n");
  const auto events = reader.next();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].first, 12);
  EXPECT_EQ(events[0].second["step"], 7);
}

TEST(RunLogReader, RefusesAFolderWithoutLogs) {
  TemporaryDirectory folder;
  EXPECT_ERROR(RunLogReader{folder.path()}, ExitCode::data, folder.path());
}

}  // namespace
}  // namespace longwave
