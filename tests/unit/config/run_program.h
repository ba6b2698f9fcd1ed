// Runs the built program and keeps what it says.
#pragma once

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "tests/unit/config/job_file.h"

namespace longwave {

struct Outcome {
  int code;
  std::string output;
};

inline Outcome run_longwave(const std::string& arguments) {
  std::FILE* pipe = ::popen((std::string(LONGWAVE_BINARY) + " " + arguments).c_str(), "r");
  Outcome outcome{-1, ""};
  std::array<char, 4096> buffer;
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.output.append(buffer.data(), count);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  return outcome;
}

// Of a command whose standard error was joined to its output: 78 and one line, which begins with `beginning`.
inline void expect_one_line(const Outcome& outcome, const std::string& beginning) {
  EXPECT_EQ(outcome.code, 78);
  EXPECT_THAT(outcome.output, testing::StartsWith(beginning));
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
}

}  // namespace longwave
