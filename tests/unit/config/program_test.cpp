// The program itself: one line on standard error, nothing on standard output, and the documented exit code.
#include "tests/unit/config/run_program.h"

namespace longwave {
namespace {

TEST(Program, RefusesAWrongCommandLineInOneLine) {
  expect_one_line(run_longwave("2>&1"), "longwave: ");
  expect_one_line(run_longwave("trian 2>&1"), "longwave: ");
  expect_one_line(run_longwave("keys --markdwon 2>&1"), "longwave: ");
}

TEST(Program, ListsEveryKey) {
  const Outcome text = run_longwave("keys");
  EXPECT_EQ(text.code, 0);
  EXPECT_EQ(text.output, describe_settings(false));
  const Outcome markdown = run_longwave("keys --markdown");
  EXPECT_EQ(markdown.output, describe_settings(true));
}

TEST(Program, SaysItsVersionAndCommit) {
  const Outcome outcome = run_longwave("--version");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, testing::MatchesRegex("longwave [0-9.]+ \\([0-9a-z+-]+\\)\n"));
}

}  // namespace
}  // namespace longwave
