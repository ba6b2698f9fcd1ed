#include "jobs/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "jobs/report/format.h"
#include "jobs/report/seeds.h"
#include "jobs/report/verdict.h"

namespace longwave {
namespace {

enum class Best { none, lowest, highest };

struct Column {
  std::string header;
  Measure value;
  std::string (*format)(double);
  Best best = Best::none;
  bool spread = false;  // shown beside the mean of several seeds
};

bool any_seeds(const std::vector<RunSummary>& runs) {
  return std::any_of(runs.begin(), runs.end(), [](const RunSummary& run) { return !run.seeds.empty(); });
}

bool better(Best best, double a, double b) { return best == Best::lowest ? a < b : a > b; }

// The text of the column's best value; empty when nothing is to be emphasised. Runs that read the same are equally good.
std::string best_text(const Column& column, const std::vector<RunSummary>& runs) {
  double best = not_measured;
  std::set<std::string> texts;
  for (const RunSummary& run : runs) {
    const double value = mean_over_seeds(run, column.value);
    if (std::isnan(value)) continue;
    texts.insert(column.format(value));
    if (std::isnan(best) || better(column.best, value, best)) best = value;
  }
  return column.best == Best::none || texts.size() < 2 ? std::string() : column.format(best);
}

std::string seeds_note(const std::vector<RunSummary>& runs) {
  std::set<std::size_t> counts;
  for (const RunSummary& run : runs) counts.insert(std::max<std::size_t>(1, run.seeds.size()));
  const std::string several = counts.size() == 1 ? std::to_string(*counts.begin()) : fmt::format("up to {}", *counts.rbegin());
  return fmt::format(
      "Runs that differ in their seed alone are one row, the mean of {}; ± is the standard deviation between them. Their "
      "passkey prompts are counted together.",
      several);
}

// With as many decimals as the number it belongs to.
std::string show_spread(const std::string& shown, double spread) {
  const std::size_t point = shown.find('.');
  return fmt::format(" ± {:.{}f}", spread, point == std::string::npos ? 0 : shown.size() - point - 1);
}

std::string directories(const RunSummary& run) {
  if (run.seeds.empty()) return run.directory;
  std::vector<std::string> all;
  for (const RunSummary& seed : run.seeds) all.push_back(seed.directory);
  return join_words(all);
}

HtmlTable run_table(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles, const std::vector<Column>& columns,
                    bool with_state) {
  std::vector<HtmlCell> header = {{"run"}};
  if (with_state) header.insert(header.end(), {{"positions"}, {"state"}});
  const std::size_t text_columns = header.size();
  std::vector<std::string> best;
  for (const Column& column : columns) {
    header.push_back({column.header});
    best.push_back(best_text(column, runs));
  }
  HtmlTable table(header, text_columns);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<HtmlCell> row = {{with_state ? runs[i].name : runs[i].label, false, directories(runs[i]), styles[i].color}};
    if (with_state) row.insert(row.end(), {{runs[i].kind}, {runs[i].state()}});
    for (std::size_t c = 0; c < columns.size(); ++c) {
      std::string text = columns[c].format(mean_over_seeds(runs[i], columns[c].value));
      const bool is_best = !best[c].empty() && text == best[c];
      const double spread = columns[c].spread ? spread_over_seeds(runs[i], columns[c].value) : not_measured;
      if (std::isfinite(spread)) text += show_spread(text, spread);
      row.push_back({text, is_best});
    }
    table.add_row(std::move(row));
  }
  return table;
}

double unless_zero(std::int64_t value) { return value > 0 ? static_cast<double>(value) : not_measured; }

std::string multiple_header(double multiple, const std::vector<RunSummary>& runs) {
  std::set<std::int64_t> lengths;
  for (const RunSummary& run : runs) lengths.insert(length_at(run, multiple));
  return show_multiple(multiple) + (lengths.size() == 1 ? fmt::format("\n{}", *lengths.begin()) : "");
}

std::string perplexity_table(const std::string& title, double LengthResult::*value, const std::vector<RunSummary>& runs,
                             const std::vector<RunStyle>& styles) {
  std::vector<Column> columns;
  bool any = false;
  for (const double multiple : perplexity_multiples(runs)) {
    const auto at = [=](const RunSummary& run) {
      const LengthResult* result = run.at_length(length_at(run, multiple));
      return result ? result->*value : not_measured;
    };
    any = any || std::any_of(runs.begin(), runs.end(), [&](const RunSummary& run) { return !std::isnan(at(run)); });
    columns.push_back({multiple_header(multiple, runs), at, show_perplexity, Best::lowest, true});
  }
  if (!any) return "";
  return "<div>\n<h3>" + title + "</h3>\n" + run_table(runs, styles, columns, false).str() + "</div>\n";
}

// White to blue; the text turns white where that has the higher contrast.
std::string shade(double accuracy) {
  const auto mix = [&](double white, double full) { return static_cast<int>(std::lround(white + (full - white) * accuracy)); };
  return fmt::format("background:#{:02x}{:02x}{:02x};color:{}", mix(247, 0), mix(249, 90), mix(252, 150),
                     accuracy > 0.72 ? "#fff" : "#222");
}

const PasskeyCell* find_cell(const RunSummary& run, std::int64_t length, double depth) {
  for (const PasskeyCell& cell : run.passkey) {
    if (cell.length == length && cell.depth == depth) return &cell;
  }
  return nullptr;
}

std::string map_cell(const PasskeyCell* cell) {
  if (!cell) return "<td class=\"none\">—</td>";
  const double accuracy = static_cast<double>(cell->correct) / static_cast<double>(cell->trials);
  std::string hint = fmt::format("{} of {} prompts", cell->correct, cell->trials);
  if (std::isfinite(cell->low)) hint += fmt::format(", 95% interval {} to {}", show_percent(cell->low), show_percent(cell->high));
  if (std::isfinite(cell->digits)) hint += fmt::format(", {} of the digits", show_percent(cell->digits));
  return fmt::format("<td style=\"{}\" title=\"{}\">{}</td>", shade(accuracy), hint, show_percent(accuracy));
}

std::string passkey_map(const RunSummary& run, const RunStyle& style) {
  std::set<std::int64_t> lengths;
  std::set<double> depths;
  for (const PasskeyCell& cell : run.passkey) {
    lengths.insert(cell.length);
    depths.insert(cell.depth);
  }
  std::string html = "<div class=\"map\">\n<h3>" + legend_key(style) + escape_html(run.label) +
                     "</h3>\n<div class=\"scroll\"><table class=\"heat\">\n";
  html += "<thead><tr><th>depth</th>";
  for (const std::int64_t length : lengths) {
    html += fmt::format("<th{}>{}</th>", length == run.train_length ? " class=\"trained\"" : "", length);
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const double depth : depths) {
    html += fmt::format("<tr><th>{}</th>", show_percent(depth));
    for (const std::int64_t length : lengths) html += map_cell(find_cell(run, length, depth));
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n</div>\n";
}

}  // namespace

HtmlTable training_table(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles) {
  const auto has_other_sizes = [&](const RunSummary& run) { return run.sizes != runs.front().sizes; };
  const Best fastest = std::any_of(runs.begin(), runs.end(), has_other_sizes) ? Best::none : Best::highest;
  std::vector<Column> columns = {
      {"parameters", [](const RunSummary& run) { return unless_zero(run.sizes.parameters()); }, show_count},
      {"steps", [](const RunSummary& run) { return run.status ? unless_zero(run.status->step) : not_measured; }, show_integer},
      {"tokens", [](const RunSummary& run) { return run.tokens(); }, show_count},
      {"training\nloss", [](const RunSummary& run) { return run.final_loss(); }, show_loss, Best::lowest, true},
      {"validation\nloss", [](const RunSummary& run) { return run.final_validation_loss(); }, show_loss, Best::lowest, true},
      {"tokens/s", [](const RunSummary& run) { return run.tokens_per_second(); }, show_integer, fastest},
      {"MFU", [](const RunSummary& run) { return run.mfu(); }, show_percent, fastest},
      {"training\ntime", [](const RunSummary& run) { return run.training_seconds(); }, show_duration},
  };
  // A grid without validation need not have a column of dashes for it.
  std::erase_if(columns, [&](const Column& column) {
    return std::none_of(runs.begin(), runs.end(),
                        [&](const RunSummary& run) { return std::isfinite(mean_over_seeds(run, column.value)); });
  });
  return run_table(runs, styles, columns, true);
}

std::string training_table_note(const std::vector<RunSummary>& runs) {
  std::string note =
      "<p class=\"note\">Losses in nats per token; the training loss is the mean of the last tenth of the logged steps. "
      "Throughput is the median over the run, all ranks together.";
  if (std::any_of(runs.begin(), runs.end(), [](const RunSummary& run) { return std::isfinite(run.mfu()); })) {
    note +=
        " MFU: matrix-product and attention operations of forward and backward, causal pairs counted once and nothing "
        "recomputed, over the rate that the machine was measured to reach.";
  }
  if (any_seeds(runs)) note += " " + seeds_note(runs);
  if (runs.size() > 1) note += " The best value of a column is bold.";
  return note + "</p>\n";
}

std::string perplexity_tables(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles) {
  const std::string tables =
      perplexity_table("Perplexity, all targets", &LengthResult::perplexity, runs, styles) +
      perplexity_table("Perplexity, last half of the targets", &LengthResult::tail_perplexity, runs, styles) +
      perplexity_table("Perplexity, last 64 targets", &LengthResult::last_64_perplexity, runs, styles);
  return tables.empty() ? tables : fmt::format("<div class=\"tables{}\">\n{}</div>\n", any_seeds(runs) ? " wide" : "", tables);
}

std::string passkey_table(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles) {
  std::vector<Column> columns;
  for (const double multiple : passkey_multiples(runs)) {
    columns.push_back({multiple_header(multiple, runs),
                       [=](const RunSummary& run) { return run.passkey_accuracy(length_at(run, multiple)); }, show_percent,
                       Best::highest});
  }
  if (columns.empty()) return "";
  return "<div>\n<h3>Prompts answered exactly, all depths</h3>\n" + run_table(runs, styles, columns, false).str() + "</div>\n";
}

std::string passkey_maps(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles) {
  std::string maps;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].passkey.empty()) maps += passkey_map(runs[i], styles[i]);
  }
  if (maps.empty()) return maps;
  return "<h3>Prompts answered exactly, by prompt length (across) and depth of the key (down)</h3>\n<p class=\"note\">Depth 0% "
         "is "
         "the beginning of the prompt. The training length is underlined.</p>\n<div class=\"maps\">\n" +
         maps + "</div>\n";
}

std::string legend_key(const RunStyle& style) {
  // Dash lengths and marker shapes of gnuplot's SVG terminal, so that the key looks like the curve.
  static const char* const dashes[] = {"", "8,3", "2,3", "8,3,2,3", "8,3,2,3,2,3"};
  const auto shape = [&]() -> std::string {
    switch (style.marker) {
      case 5:
        return "<path d=\"M11,3h8v8h-8z\"/>";
      case 9:
        return "<path d=\"M15,2l5,9h-10z\"/>";
      case 11:
        return "<path d=\"M15,12l5,-9h-10z\"/>";
      case 13:
        return "<path d=\"M15,2l5,5l-5,5l-5,-5z\"/>";
      case 4:
        return "<path d=\"M11,3h8v8h-8z\" fill=\"#fff\" stroke=\"" + style.color + "\" stroke-width=\"1.5\"/>";
      case 6:
        return "<circle cx=\"15\" cy=\"7\" r=\"4\" fill=\"#fff\" stroke=\"" + style.color + "\" stroke-width=\"1.5\"/>";
      default:
        return "<circle cx=\"15\" cy=\"7\" r=\"4\"/>";
    }
  }();
  return fmt::format(
      "<svg class=\"key\" viewBox=\"0 0 30 14\" fill=\"{0}\" aria-hidden=\"true\"><path d=\"M0,7h30\" stroke=\"{0}\" "
      "stroke-width=\"2\" stroke-dasharray=\"{1}\"/>{2}</svg>",
      style.color, dashes[(style.dash - 1) % 5], shape);
}

}  // namespace longwave
