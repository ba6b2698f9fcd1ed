// Hard-wrapped text as paragraphs: books from typewriters' days break lines at 70 columns, and a model would learn the
// column instead of the sentence.
#pragma once

#include <string>
#include <string_view>

namespace longwave {

// Joins the lines of a paragraph by a space (by nothing after a hyphen or dash). A line break stays where the next word
// would have fitted, as in verse, headings and lists, and where the indentation grows. Paragraphs are parted by one blank
// line; carriage returns, indentation and trailing blanks go. Text whose lines are mostly longer than 120 columns was not
// wrapped, and keeps its breaks.
std::string unwrap_paragraphs(std::string_view text);

}  // namespace longwave
