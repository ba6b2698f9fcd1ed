// Aligned plain-text tables for terminals: the summary after a job, `plan`, `run list`.
//
//   run              position    loss
//   quickstart-fope  fope       1.593
//
// A column whose cells are all numbers (or dashes) is set to the right, with its header; others to the left. Widths count
// characters, not bytes: accents, dashes and CJK text stay aligned.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace longwave {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header);

  // Missing cells are empty. LONGWAVE_CHECK: not more cells than the header has. Control characters become spaces.
  void add_row(std::vector<std::string> cells);
  // The header, the rows, each ending in a newline and without trailing spaces.
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the first is the header
};

// Columns that UTF-8 text takes on a terminal. Bytes that are not UTF-8 count one each.
std::size_t display_width(std::string_view text);

}  // namespace longwave
