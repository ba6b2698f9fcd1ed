#include "jobs/report/html.h"

#include <utility>

namespace longwave {
namespace {

constexpr const char* replacement = "\xef\xbf\xbd";  // U+FFFD

// Length of the well-formed UTF-8 character that `text` begins with; 0 if it begins with none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 0x2) return 0;
  }
  if (length > 2) {  // overlong forms, surrogates, beyond U+10FFFF
    const unsigned second = byte(1);
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
        (first == 0xf4 && second > 0x8f)) {
      return 0;
    }
  }
  return length;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const char first = text[0];
    if (length == 0) escaped += replacement;
    else if (first == '&') escaped += "&amp;";
    else if (first == '<') escaped += "&lt;";
    else if (first == '>') escaped += "&gt;";
    else if (first == '"') escaped += "&quot;";
    else if (first == '\'') escaped += "&#39;";
    else if (length == 1 && (first == 0x7f || (first < 0x20 && first != '\n' && first != '\t'))) escaped += replacement;
    else escaped += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return escaped;
}

HtmlTable::HtmlTable(std::vector<HtmlCell> header, std::size_t text_columns, std::string css_class)
    : text_columns_(text_columns), css_class_(std::move(css_class)), header_(std::move(header)) {}

void HtmlTable::add_row(std::vector<HtmlCell> cells) {
  cells.resize(header_.size());
  rows_.push_back(std::move(cells));
}

std::string HtmlTable::cell(const HtmlCell& content, const char* tag, std::size_t column) const {
  std::string html = std::string("<") + tag + (column < text_columns_ ? " class=\"text\"" : "");
  if (!content.hint.empty()) html += " title=\"" + escape_html(content.hint) + "\"";
  html += ">";
  if (!content.swatch.empty()) html += "<span class=\"swatch\" style=\"background:" + escape_html(content.swatch) + "\"></span>";
  html += content.best ? "<strong>" + escape_html(content.text) + "</strong>" : escape_html(content.text);
  return html + "</" + tag + ">";
}

std::string HtmlTable::str() const {
  std::string html = "<div class=\"scroll\"><table class=\"" + css_class_ + "\">\n<thead><tr>";
  for (std::size_t i = 0; i < header_.size(); ++i) html += cell(header_[i], "th", i);
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows_) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) html += cell(row[i], "td", i);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace longwave
