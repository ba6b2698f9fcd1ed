#include "jobs/report/text_table.h"

#include <algorithm>
#include <cstdint>

#include "core/base/error.h"

namespace longwave {
namespace {

constexpr std::size_t column_gap = 2;

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
};

// Decodes one character; a byte that starts none is taken alone.
Character decode(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = first < 0x80 ? 1 : first >> 5 == 0x6 ? 2 : first >> 4 == 0xe ? 3 : first >> 3 == 0x1e ? 4 : 0;
  if (bytes == 0 || bytes > text.size()) return {first, 1};
  std::uint32_t code = bytes == 1 ? first : first & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if (next >> 6 != 0x2) return {first, 1};
    code = code << 6 | (next & 0x3f);
  }
  return {code, bytes};
}

std::size_t columns(std::uint32_t code) {
  const auto within = [code](std::uint32_t first, std::uint32_t last) { return code >= first && code <= last; };
  if (within(0x300, 0x36f) || within(0x200b, 0x200f) || within(0xfe00, 0xfe0f)) return 0;  // combining, zero-width
  const bool wide = within(0x1100, 0x115f) || within(0x2e80, 0xa4cf) || within(0xac00, 0xd7a3) || within(0xf900, 0xfaff) ||
                    within(0xfe30, 0xfe6f) || within(0xff00, 0xff60) || within(0x1f300, 0x1faff) || within(0x20000, 0x3fffd);
  return wide ? 2 : 1;
}

bool is_number(const std::string& cell) {
  const std::size_t first = cell.find_first_not_of("+-<~ ");
  return first == std::string::npos || cell == "—" || (cell[first] >= '0' && cell[first] <= '9') || cell == "nan" ||
         cell == "inf" || cell == "-inf";
}

std::string printable(std::string cell) {
  std::replace_if(
      cell.begin(), cell.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return cell;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Character character = decode(text);
    width += columns(character.code);
    text.remove_prefix(character.bytes);
  }
  return width;
}

TextTable::TextTable(std::vector<std::string> header) {
  for (std::string& cell : header) cell = printable(std::move(cell));
  rows_.push_back(std::move(header));
}

void TextTable::add_row(std::vector<std::string> cells) {
  LONGWAVE_CHECK(cells.size() <= rows_.front().size(), "a row of {} cells under {} headers", cells.size(), rows_.front().size());
  for (std::string& cell : cells) cell = printable(std::move(cell));
  cells.resize(rows_.front().size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::str() const {
  const std::size_t count = rows_.front().size();
  std::vector<std::size_t> widths(count, 0);
  std::vector<bool> right(count, rows_.size() > 1);
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    for (std::size_t column = 0; column < count; ++column) {
      widths[column] = std::max(widths[column], display_width(rows_[row][column]));
      if (row > 0 && !is_number(rows_[row][column])) right[column] = false;
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t column = 0; column < count; ++column) {
      const std::string padding(widths[column] - display_width(row[column]), ' ');
      if (column > 0) line.append(column_gap, ' ');
      line += right[column] ? padding + row[column] : row[column] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace longwave
