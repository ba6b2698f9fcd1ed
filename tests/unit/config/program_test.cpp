// The program itself: one line on standard error, nothing on standard output, and the documented exit code.
#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "tests/unit/config/job_file.h"

namespace longwave {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Outcome {
  int code;
  std::string output;
};

Outcome run_longwave(const std::string& arguments) {
  std::FILE* pipe = ::popen((std::string(LONGWAVE_BINARY) + " " + arguments).c_str(), "r");
  Outcome outcome{-1, ""};
  std::array<char, 4096> buffer;
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.output.append(buffer.data(), count);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  return outcome;
}

void expect_one_line(const Outcome& outcome, const std::string& beginning) {
  EXPECT_EQ(outcome.code, 78);
  EXPECT_THAT(outcome.output, StartsWith(beginning));
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
}

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
  EXPECT_THAT(outcome.output, testing::MatchesRegex("longwave [0-9.]+ \\([0-9a-z-]+\\)\n"));
}

}  // namespace
}  // namespace longwave
