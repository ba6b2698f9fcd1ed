#include "jobs/run_directory/tensorboard_log.h"

#include <gtest/gtest.h>

namespace longwave {
namespace {

TEST(Crc32c, HasTheKnownAnswersOfTheStandard) {
  // RFC 3720, appendix B.4, and the common check value.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
}

}  // namespace
}  // namespace longwave
