#include "core/base/timestamp.h"

#include <gtest/gtest.h>

#include <string>

namespace longwave {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

TEST(Timestamp, IsUtcToTheMillisecond) {
  EXPECT_EQ(timestamp(system_clock::time_point(milliseconds(0))), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(timestamp(system_clock::time_point(milliseconds(1709210096007))), "2024-02-29T12:34:56.007Z");
  EXPECT_EQ(timestamp(system_clock::time_point(milliseconds(-1))), "1969-12-31T23:59:59.999Z");
}

TEST(Timestamp, IsReadBackExactly) {
  for (const std::int64_t count : {0LL, 1709210096007LL, 4102444799999LL}) {
    const system_clock::time_point time{milliseconds(count)};
    EXPECT_EQ(parse_timestamp(timestamp(time)), time);
  }
}

TEST(Timestamp, IsReadInItsOwnFormOnly) {
  for (const char* text : {"", "now", "2024-02-29", "2024-02-29T12:34:56Z", "2024-02-29T12:34:56.7Z", "2024-02-29T12:34:56.007",
                           "2024-02-29T12:34:56.0a7Z", "2024-02-29T12:34:56.007Z ", "2024-13-29T12:34:56.007Z"}) {
    EXPECT_FALSE(parse_timestamp(text)) << text;
  }
}

}  // namespace
}  // namespace longwave
