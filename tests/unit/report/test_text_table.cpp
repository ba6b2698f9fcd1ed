#include <gtest/gtest.h>

#include "jobs/report/text_table.h"

namespace longwave {
namespace {

TEST(TextTable, SetsNumbersToTheRightAndTextToTheLeft) {
  TextTable table({"run", "loss", "note"});
  table.add_row({"a", "1.5", "x"});
  table.add_row({"longer", "12.25", "yy"});
  EXPECT_EQ(table.str(),
            "run      loss  note\n"
            "a         1.5  x\n"
            "longer  12.25  yy\n");
}

TEST(TextTable, CountsCharactersAndNotBytes) {
  EXPECT_EQ(display_width("Müller"), 6u);
  EXPECT_EQ(display_width("—"), 1u);
  EXPECT_EQ(display_width("波"), 2u);
  EXPECT_EQ(display_width("e\xcc\x81"), 1u);  // e and a combining accent
  EXPECT_EQ(display_width("\xff\xfe"), 2u);   // not UTF-8
  EXPECT_EQ(display_width("\xe6\xb3"), 2u);   // cut in the middle of a character
  TextTable table({"name", "n"});
  table.add_row({"Müller", "1"});
  table.add_row({"波波", "—"});
  EXPECT_EQ(table.str(), "name    n\nMüller  1\n波波    —\n");
}

TEST(TextTable, KeepsAColumnOfNumbersRightWhenSomeAreMissing) {
  TextTable table({"n"});
  table.add_row({"—"});
  table.add_row({"100"});
  EXPECT_EQ(table.str(), "  n\n  —\n100\n");
}

TEST(TextTable, FillsShortRowsAndDefusesControlCharacters) {
  TextTable table({"a", "b"});
  table.add_row({"x\ny\x1b[31m"});
  EXPECT_EQ(table.str(), "a         b\nx y [31m\n");
}

TEST(TextTable, HasItsHeaderWithoutRows) { EXPECT_EQ(TextTable({"a", "b"}).str(), "a  b\n"); }

}  // namespace
}  // namespace longwave
