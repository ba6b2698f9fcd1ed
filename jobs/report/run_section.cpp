#include "jobs/report/run_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "jobs/report/comparison.h"
#include "jobs/report/format.h"
#include "jobs/report/html.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

std::string words_of_key(std::string key) {
  for (char& c : key) c = c == '_' ? ' ' : c;
  return key;
}

std::string as_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::string text;
    for (const Json& item : value) text += (text.empty() ? "" : ", ") + as_text(item);
    return text;
  }
  if (value.is_object()) {
    std::string text;
    for (const auto& [key, item] : value.items()) text += (text.empty() ? "" : ", ") + words_of_key(key) + " " + as_text(item);
    return text;
  }
  return value.is_null() ? "—" : value.dump();
}

// A row for every time the run was started; how each differs from the others is what a reader looks for.
std::string attempts_part(const RunSummary& run) {
  const auto attempts = run.provenance.find("attempts");
  if (attempts == run.provenance.end() || !attempts->is_array() || attempts->size() < 2) return "";
  std::vector<const char*> keys = {"attempt", "time", "commit", "ranks", "hosts", "device", "precision", "slurm"};
  std::erase_if(keys, [&](const char* key) {
    return std::none_of(attempts->begin(), attempts->end(),
                        [&](const Json& attempt) { return attempt.contains(key) && !attempt[key].is_null(); });
  });
  std::vector<HtmlCell> header;
  for (const char* key : keys) header.push_back({key});
  HtmlTable table(header, keys.size());
  for (const Json& attempt : *attempts) {
    std::vector<HtmlCell> row;
    for (const char* key : keys) row.push_back({attempt.contains(key) ? as_text(attempt[key]) : ""});
    table.add_row(std::move(row));
  }
  return "<h4>Attempts</h4>\n" + table.str();
}

std::string status_line(const RunSummary& run) {
  if (!run.status) return "unknown";
  const Status& status = *run.status;
  std::string text = fmt::format("{}, step {} of {}, attempt {}", run.state(), show_integer(static_cast<double>(status.step)),
                                 show_integer(static_cast<double>(status.steps)), status.attempt);
  if (!status.reason.empty()) text += "; " + status.reason;
  if (status.state == RunState::failed)
    text += fmt::format("; rank {} on {} in phase {}", status.rank, status.host, status.phase);
  if (status.exit_code && *status.exit_code != 0) text += fmt::format("; exit code {}", *status.exit_code);
  if (!status.checkpoint.empty()) text += "; last checkpoint " + status.checkpoint;
  return text + "; written " + status.time;
}

// From the report's folder to `path`; the path itself where the two have nothing in common.
std::string relative_link(const std::string& path, const std::string& output) {
  std::error_code failure;
  const fs::path folder = fs::absolute(output, failure).parent_path();
  const fs::path relative = fs::absolute(path, failure).lexically_normal().lexically_relative(folder.lexically_normal());
  return relative.empty() ? path : relative.generic_string();
}

// Characters with a meaning in a URL, in a path that is none.
std::string as_url(const std::string& path) {
  std::string url;
  for (const char c : path) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || std::string_view("/._-~").find(c) != std::string_view::npos;
    url += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return url.starts_with("/") || url.starts_with(".") ? url : "./" + url;
}

std::string files_line(const RunSummary& run, const std::string& output) {
  std::string html;
  for (const std::string& file : run.files) {
    html += (html.empty() ? "" : ", ") + std::string("<a href=\"") + as_url(relative_link(run.directory + "/" + file, output)) +
            "\">" + escape_html(file) + "</a>";
  }
  return html;
}

std::string provenance_rows(const RunSummary& run) {
  std::string rows;
  if (!run.provenance.is_object()) return rows;
  for (const auto& [key, value] : run.provenance.items()) {
    if (key == "attempts" || value.is_null()) continue;
    rows += "<dt>" + escape_html(words_of_key(key)) + "</dt><dd>" + escape_html(as_text(value)) + "</dd>\n";
  }
  return rows;
}

std::string ranks_part(const RunSummary& run) {
  if (run.ranks.empty()) return "";
  HtmlTable table({{"rank"}, {"host"}, {"last phase"}, {"last step"}, {"events"}, {"own work"}}, 3);
  std::string slow, problems;
  for (const RankActivity& rank : run.ranks) {
    table.add_row({{std::to_string(rank.rank)},
                   {rank.host},
                   {rank.last_phase},
                   {show_integer(static_cast<double>(rank.last_step))},
                   {show_integer(static_cast<double>(rank.events))},
                   {show_percent(rank.busy_share), rank.slow}});
    if (rank.slow) slow += fmt::format("{}rank {} on {}", slow.empty() ? "" : ", ", rank.rank, rank.host);
    for (const std::string& problem : rank.problems)
      problems += "<li>rank " + std::to_string(rank.rank) + ", " + escape_html(problem) + "</li>\n";
  }
  std::string html =
      "<details><summary>Ranks" + (slow.empty() ? std::string(": none is slow") : ": slow " + escape_html(slow)) +
      "</summary>\n<p class=\"note\">Own work: share of the time in steps that is not a wait for other ranks.</p>\n" +
      table.str() + "</details>\n";
  if (!problems.empty()) html += "<h4>Warnings and errors in the logs</h4>\n<ul>\n" + problems + "</ul>\n";
  return html;
}

std::string configuration_part(const RunSummary& run) {
  HtmlTable table({{"key"}, {"value"}, {"from"}}, 3, "settings");
  for (const ConfigLine& line : run.configuration) {
    const bool chosen = !line.source.empty() && line.source != "default";
    table.add_row({{line.key}, {line.value, chosen}, {line.source}});
  }
  return "<details><summary>Configuration</summary>\n<p class=\"note\">Bold values were chosen; the others are defaults.</p>\n" +
         table.str() + "</details>\n";
}

}  // namespace

std::string run_section(const RunSummary& run, const RunStyle& style, const std::string& output) {
  std::string html = "<article>\n<h3>" + legend_key(style) + escape_html(run.name) + "</h3>\n<dl>\n";
  html += "<dt>status</dt><dd>" + escape_html(status_line(run)) + "</dd>\n";
  if (!run.missing.empty()) html += "<dt>missing</dt><dd class=\"absent\">" + escape_html(join_words(run.missing)) + "</dd>\n";
  html +=
      "<dt>directory</dt><dd>" + escape_html(run.directory) + "</dd>\n<dt>files</dt><dd>" + files_line(run, output) + "</dd>\n";
  html += provenance_rows(run) + "</dl>\n";
  if (run.provenance.is_object()) html += attempts_part(run);
  return html + ranks_part(run) + configuration_part(run) + "</article>\n";
}

}  // namespace longwave
