// EXPECT_ERROR(statement, code, "part of the message"): the statement throws an Error with this exit code, and its message
// is one line that contains the text.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

#define EXPECT_ERROR(statement, exit_code, text)                                     \
  try {                                                                              \
    statement;                                                                       \
    ADD_FAILURE() << #statement " threw nothing";                                    \
  } catch (const ::longwave::Error& error) {                                         \
    EXPECT_EQ(error.code(), exit_code) << error.what();                              \
    EXPECT_THAT(std::string(error.what()), ::testing::HasSubstr(text));              \
    EXPECT_THAT(std::string(error.what()), ::testing::Not(::testing::HasSubstr("\n"))); \
  }
