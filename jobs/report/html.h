// The little HTML that reports are made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longwave {

// Text as it may stand in an element or a quoted attribute. Bytes that are not UTF-8 and control characters are replaced.
std::string escape_html(std::string_view text);

struct HtmlCell {
  std::string text;         // escaped by the table
  bool best = false;        // emphasised
  std::string hint = {};    // tooltip
  std::string swatch = {};  // CSS colour of a mark before the text
};

// A table whose first `text_columns` columns hold text, to the left, and whose others hold numbers, to the right.
class HtmlTable {
 public:
  HtmlTable(std::vector<HtmlCell> header, std::size_t text_columns, std::string css_class = "numbers");
  void add_row(std::vector<HtmlCell> cells);
  std::string str() const;  // wrapped so that a table too wide for a phone scrolls by itself

 private:
  std::string cell(const HtmlCell& content, const char* tag, std::size_t column) const;

  std::size_t text_columns_;
  std::string css_class_;
  std::vector<HtmlCell> header_;
  std::vector<std::vector<HtmlCell>> rows_;
};

}  // namespace longwave
