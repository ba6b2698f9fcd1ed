// What a refused input must say: the exit code, and on one line all the words a person needs to find the fault.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "core/base/error.h"

namespace longwave {

template <class Action>
void expect_refusal(ExitCode code, const std::vector<std::string>& words, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
    for (const std::string& word : words) EXPECT_THAT(error.what(), testing::HasSubstr(word));
  }
}

}  // namespace longwave
