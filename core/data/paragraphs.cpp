#include "core/data/paragraphs.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace longwave {
namespace {

constexpr std::string_view blanks = " \t\r\f\v";

struct Line {
  std::string_view text;    // without blanks around it
  std::size_t indent = 0;   // blanks before it
  std::size_t columns = 0;  // indentation included, in characters
};

// Characters of UTF-8, by their first bytes.
std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & '\xc0') != '\x80'; }));
}

Line make_line(std::string_view raw) {
  const std::size_t begin = raw.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  const std::string_view text = raw.substr(begin, raw.find_last_not_of(blanks) + 1 - begin);
  return {text, begin, begin + characters(text)};
}

std::vector<Line> split_lines(std::string_view text) {
  std::vector<Line> lines;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    lines.push_back(make_line(text.substr(0, length)));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return lines;
}

// The column the text was wrapped at: what nine lines of ten keep to. 0 when it was not wrapped.
std::size_t wrap_column(const std::vector<Line>& lines) {
  constexpr std::size_t widest = 120;
  std::vector<std::size_t> columns;
  for (const Line& line : lines) {
    if (line.columns > 0) columns.push_back(line.columns);
  }
  if (columns.empty()) return 0;
  const auto ninth = columns.begin() + static_cast<std::ptrdiff_t>(columns.size() * 9 / 10);
  std::nth_element(columns.begin(), ninth, columns.end());
  return *ninth <= widest ? *ninth : 0;
}

bool continues(const Line& line, const Line& before, std::size_t column) {
  // Wrapping by hand is uneven: a word that would have ended a few columns before the margin may have been carried over.
  constexpr std::size_t unevenness = 8;
  if (line.indent > before.indent + 1) return false;
  const std::size_t word = characters(line.text.substr(0, line.text.find(' ')));
  return before.columns + 1 + word + unevenness > column;
}

bool joins_without_space(std::string_view text) {
  if (text.size() < 2 || text.back() != '-') return false;
  return text[text.size() - 2] != ' ';  // "well-" and "he said--" go on; a lone " -" is a dash between words
}

}  // namespace

std::string unwrap_paragraphs(std::string_view text) {
  const std::vector<Line> lines = split_lines(text);
  const std::size_t column = wrap_column(lines);
  std::string out;
  out.reserve(text.size());
  const Line* before = nullptr;
  bool blank = false;
  for (const Line& line : lines) {
    if (line.columns == 0) {
      blank = true;
      continue;
    }
    if (before == nullptr) {
      // the first line
    } else if (blank) {
      out += "\n\n";
    } else if (column == 0 || !continues(line, *before, column)) {
      out += '\n';
    } else if (!joins_without_space(before->text)) {
      out += ' ';
    }
    out += line.text;
    before = &line;
    blank = false;
  }
  if (!out.empty()) out += '\n';
  return out;
}

}  // namespace longwave
