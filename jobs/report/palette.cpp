#include "jobs/report/palette.h"

#include <map>

namespace longwave {
namespace {

constexpr int dash_types = 5;  // gnuplot has that many

RunStyle style_of(const std::string& kind) {
  static const std::map<std::string, RunStyle> styles = {
      {"fope", {"#0072b2", 7, 1}},          // blue, disc
      {"rope", {"#d55e00", 5, 1}},          // vermilion, square
      {"alibi", {"#009e73", 9, 1}},         // green, triangle
      {"nope", {"#cc79a7", 11, 1}},         // purple, triangle down
      {"p_rope", {"#e69f00", 13, 1}},       // orange, diamond
      {"clipped_rope", {"#56b4e9", 4, 1}},  // sky blue, open square
      {"yarn", {"#8c564b", 12, 1}},         // brown, open diamond
  };
  std::string key = kind;
  for (char& c : key) c = c == '-' ? '_' : c;
  const auto found = styles.find(key);
  return found == styles.end() ? RunStyle{"#555555", 6, 1} : found->second;
}

}  // namespace

std::vector<RunStyle> run_styles(const std::vector<RunSummary>& runs) {
  std::map<std::string, int> seen;
  std::vector<RunStyle> styles;
  for (const RunSummary& run : runs) {
    styles.push_back(style_of(run.kind));
    styles.back().dash = 1 + seen[styles.back().color]++ % dash_types;
  }
  return styles;
}

}  // namespace longwave
