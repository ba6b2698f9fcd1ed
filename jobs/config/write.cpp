// The configuration, and what is known of every key, as text.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "jobs/config/config.h"
#include "jobs/config/schema.h"

namespace longwave {
namespace {

std::vector<std::string> split_at_dots(const std::string& key) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t dot; (dot = key.find('.', begin)) != std::string::npos; begin = dot + 1) {
    parts.push_back(key.substr(begin, dot - begin));
  }
  parts.push_back(key.substr(begin));
  return parts;
}

struct Line {
  std::string text;
  std::string comment;
};

// Comments stand in one column unless the line is long.
std::string aligned(const std::vector<Line>& lines) {
  constexpr std::size_t widest = 44;
  std::string text;
  for (const Line& line : lines) {
    text += line.comment.empty() ? line.text + "\n" : fmt::format("{:<{}}  # {}\n", line.text, widest, line.comment);
  }
  return text;
}

// Columns as wide as their widest cell, two spaces between.
std::string column_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) text += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += row.back() + "\n";
  }
  return text;
}

std::string markdown_tables() {
  std::string text, section;
  for (const Setting& setting : settings()) {
    const std::string top = setting.key.substr(0, setting.key.find('.'));
    if (top != section) {
      section = top;
      text += text.empty() ? "" : "\n";
      text += fmt::format("### {}\n\n| key | type | default | meaning |\n|---|---|---|---|\n", section);
    }
    text += fmt::format("| `{}` | {} | {} | {} |\n", setting.key, setting.type, setting.standard, setting.meaning);
  }
  return text;
}

}  // namespace

std::vector<ResolvedSetting> resolved_settings(const Config& config) {
  std::map<std::string, std::string> source_of;
  for (const Config::Origin& origin : config.origins) source_of[origin.key] = origin.source;
  std::vector<ResolvedSetting> resolved;
  for (const Setting& setting : settings()) {
    if (setting.get == nullptr || !setting.applies(config)) continue;
    resolved.push_back({setting.key, setting.get(config), source_of[setting.key]});
  }
  return resolved;
}

std::string to_yaml(const Config& config, bool sources) {
  std::vector<Line> lines;
  std::vector<std::string> open;  // sections the current line is in
  for (const ResolvedSetting& setting : resolved_settings(config)) {
    std::vector<std::string> parts = split_at_dots(setting.key);
    const std::string name = parts.back();
    parts.pop_back();
    std::size_t common = 0;
    while (common < open.size() && common < parts.size() && open[common] == parts[common]) ++common;
    for (std::size_t depth = common; depth < parts.size(); ++depth) {
      lines.push_back({std::string(2 * depth, ' ') + parts[depth] + ":", ""});
    }
    open = parts;
    lines.push_back(
        {fmt::format("{}{}: {}", std::string(2 * parts.size(), ' '), name, setting.value), sources ? setting.source : ""});
  }
  return aligned(lines);
}

std::string describe_settings(bool markdown) {
  if (markdown) return markdown_tables();
  std::vector<std::vector<std::string>> rows = {{"KEY", "DEFAULT", "TYPE", "MEANING"}};
  for (const Setting& setting : settings()) rows.push_back({setting.key, setting.standard, setting.type, setting.meaning});
  return column_text(rows);
}

}  // namespace longwave
