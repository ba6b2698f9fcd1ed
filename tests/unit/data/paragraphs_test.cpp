#include "core/data/paragraphs.h"

#include <gtest/gtest.h>

namespace longwave {
namespace {

const std::string wrapped =
    "It was a bright day in the month of May, and the\r\n"
    "road went on between the hedges as it always did,\r\n"
    "and it went where all of them would go, on a well-\r\n"
    "known way.\r\n"
    "\r\n"
    "\r\n"
    "\"Stop!\" cried the man who stood behind the gate--\r\n"
    "and nobody did, for there was nothing he could do\r\n"
    "about it now.\r\n";

TEST(UnwrapParagraphs, JoinsTheLinesOfAParagraph) {
  EXPECT_EQ(unwrap_paragraphs(wrapped),
            "It was a bright day in the month of May, and the road went on between the hedges as it always did, "
            "and it went where all of them would go, on a well-known way.\n\n"
            "\"Stop!\" cried the man who stood behind the gate--and nobody did, for there was nothing he could do "
            "about it now.\n");
}

TEST(UnwrapParagraphs, KeepsVerse) {
  const std::string verse = "\n    A man of straw\n    stood in the rain\n    and no one saw\n    him dry again.\n";
  EXPECT_EQ(unwrap_paragraphs(wrapped + verse).substr(unwrap_paragraphs(wrapped).size()),
            "\nA man of straw\nstood in the rain\nand no one saw\nhim dry again.\n");
}

TEST(UnwrapParagraphs, BeginsAParagraphWhereTheIndentationGrows) {
  EXPECT_EQ(unwrap_paragraphs("the end of one paragraph at the margin of it all\n"
                              "    and the next which begins with four blanks and\n"
                              "goes on at the margin, as it was once the custom.\n"),
            "the end of one paragraph at the margin of it all\n"
            "and the next which begins with four blanks and goes on at the margin, as it was once the custom.\n");
}

TEST(UnwrapParagraphs, DropsTheIndentationOfAWholeText) {
  EXPECT_EQ(unwrap_paragraphs("   a text that stands three columns from the edge\n   of the paper throughout.\n"),
            "a text that stands three columns from the edge of the paper throughout.\n");
}

TEST(UnwrapParagraphs, LeavesLongLinesAlone) {
  const std::string line = std::string(200, 'x') + " end.";
  EXPECT_EQ(unwrap_paragraphs(line + "\n" + line + "\n"), line + "\n" + line + "\n");
}

TEST(UnwrapParagraphs, CountsCharactersNotBytes) {
  // 24 columns, 47 bytes: the short line is not short because of its bytes.
  std::string line;
  for (int i = 0; i < 23; ++i) line += "\xc3\xa9";
  EXPECT_EQ(unwrap_paragraphs(line + ".\n" + line + ".\n\n\xc3\xa9\xc3\xa9\n\xc3\xa9.\n"),
            line + ". " + line + ".\n\n\xc3\xa9\xc3\xa9\n\xc3\xa9.\n");
}

TEST(UnwrapParagraphs, IsTheSameTwice) {
  const std::string once = unwrap_paragraphs(wrapped + "\nThe end\n");
  EXPECT_EQ(unwrap_paragraphs(once), once);
  EXPECT_EQ(unwrap_paragraphs(""), "");
  EXPECT_EQ(unwrap_paragraphs("\n \n"), "");
}

}  // namespace
}  // namespace longwave
