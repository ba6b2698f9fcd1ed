// The nearest valid word to a mistyped one.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "jobs/config/schema.h"

namespace longwave {
namespace {

// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before, above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = above;
    above = row;
  }
  return above[b.size()];
}

std::string last_word(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::string section_of(const std::string& key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

// The word at the smallest distance, empty when it shares too little to be meant.
std::string nearest(const std::string& unknown, const std::vector<std::string>& words) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, unknown.size() / 3) + 1;
  for (const std::string& word : words) {
    const std::size_t distance = edit_distance(unknown, word);
    if (distance < best_distance) {
      best = word;
      best_distance = distance;
    }
  }
  return best;
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Names one level below `section`, subsections too.
std::vector<std::string> names_in(const std::string& section) {
  std::vector<std::string> names;
  for (const Setting& setting : settings()) {
    if (!section.empty() && setting.key.rfind(section + ".", 0) != 0) continue;
    const std::size_t begin = section.empty() ? 0 : section.size() + 1;
    const std::string name = setting.key.substr(begin, setting.key.find('.', begin) - begin);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace

std::string suggest_word(const std::string& unknown, const std::vector<std::string>& words) {
  constexpr std::size_t few = 4;  // a person takes them in at a glance, and nearest may be far from meant
  const std::string best = words.size() <= few ? "" : nearest(unknown, words);
  return best.empty() ? "; one of " + listed(words) : "; did you mean " + best;
}

std::string suggest_key(const std::string& unknown) {
  const std::string section = section_of(unknown);
  const std::string name = last_word(unknown);
  // First a slip of the pen in the right section, then the right word in the wrong section, then a slip anywhere.
  if (section.empty() || is_section(section)) {
    const std::string best = nearest(name, names_in(section));
    if (!best.empty()) return "; did you mean " + (section.empty() ? best : section + "." + best);
  }
  std::vector<std::string> keys;
  for (const Setting& setting : settings()) {
    if (last_word(setting.key) == name) return "; did you mean " + setting.key;
    keys.push_back(setting.key);
  }
  const std::string best = nearest(unknown, keys);
  if (!best.empty()) return "; did you mean " + best;
  if (is_section(section)) return fmt::format("; keys of {}: {}", section, listed(names_in(section)));
  return "; sections: " + listed(names_in(""));
}

}  // namespace longwave
