#include "jobs/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "jobs/report/comparison.h"
#include "jobs/report/figures.h"
#include "jobs/report/format.h"
#include "jobs/report/html.h"
#include "jobs/report/run_section.h"
#include "jobs/report/seeds.h"
#include "jobs/report/style.h"
#include "jobs/report/verdict.h"

namespace longwave {
namespace {

constexpr std::size_t few_runs = 4;  // of more, tables of nothing but zeros are left out

class Page {
 public:
  Page(const std::vector<RunSummary>& runs, const std::string& output)
      : runs_(runs), shown_(average_seeds(runs)), styles_(run_styles(shown_)), output_(output) {}

  std::string str() {
    header();
    compare();
    lengths();
    passkey();
    training();
    runs();
    return html_ + "</main>\n</body>\n</html>\n";
  }

 private:
  void header() {
    std::vector<std::string> labels;
    for (const RunSummary& run : runs_) labels.push_back(run.name);
    const std::string title = runs_.size() == 1   ? runs_.front().name
                              : runs_.size() <= 4 ? join_words(labels)
                                                  : fmt::format("{} runs", runs_.size());
    html_ +=
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
        escape_html(title) + " – Longwave</title>\n<style>\n" + report_style + "</style>\n</head>\n<body>\n<main>\n";
    html_ += "<header>\n<p class=\"kicker\">Longwave report</p>\n<h1>" + escape_html(title) + "</h1>\n";
    html_ += "<p class=\"subtitle\">" + escape_html(what_was_trained(runs_)) + "</p>\n</header>\n<section class=\"verdict\">\n";
    for (const std::string& line : verdict(shown_)) html_ += "<p>" + escape_html(line) + "</p>\n";
    html_ += "</section>\n";
  }

  void compare() {
    html_ += "<section>\n<h2>" + std::string(runs_.size() == 1 ? "The run in numbers" : "Runs compared") + "</h2>\n";
    html_ += training_table(shown_, styles_).str();
    html_ += training_table_note(shown_) + "</section>\n";
  }

  void lengths() {
    html_ += "<section>\n<h2>Past the training length</h2>\n";
    const std::string tables = perplexity_tables(shown_, styles_);
    if (tables.empty()) html_ += "<p class=\"absent\">No run has been evaluated by length yet (eval/perplexity.json).</p>\n";
    draw(length_figures(shown_, styles_));
    html_ += tables + "</section>\n";
  }

  void passkey() {
    html_ += "<section>\n<h2>Passkey retrieval</h2>\n";
    const std::string maps = passkey_maps(shown_, styles_);
    if (maps.empty()) html_ += "<p class=\"absent\">No run has passkey results (eval/passkey.json).</p>\n";
    if (!maps.empty() && shown_.size() > few_runs && none_retrieves()) {
      html_ += "<p>No run has answered a prompt exactly, at any length and depth.</p>\n</section>\n";
      return;
    }
    draw(passkey_figures(shown_, styles_), passkey_table(shown_, styles_));
    html_ += maps + "</section>\n";
  }

  void training() {
    html_ += "<section>\n<h2>Training</h2>\n";
    const std::vector<Figure> figures = training_figures(shown_, styles_);
    if (figures.empty()) html_ += "<p class=\"absent\">No run has logged a training step yet (metrics.jsonl).</p>\n";
    draw(figures);
    html_ += "</section>\n";
  }

  void runs() {
    html_ += "<section>\n<h2>" + std::string(runs_.size() == 1 ? "The run" : "The runs") + "</h2>\n";
    for (std::size_t i = 0; i < shown_.size(); ++i) {
      if (shown_[i].seeds.empty()) html_ += run_section(shown_[i], styles_[i], output_);
      for (const RunSummary& seed : shown_[i].seeds) html_ += run_section(seed, styles_[i], output_);
    }
    html_ += "</section>\n";
  }

  // Plots are worth having but not worth failing for: after the first refusal the page says why, once, and has its tables.
  // `beside` follows the figures in their grid.
  void draw(const std::vector<Figure>& figures, const std::string& beside = "") {
    if (figures.empty() || !can_draw_) {
      html_ += beside;
      return;
    }
    std::string drawn;
    try {
      for (const Figure& figure : figures) {
        drawn += "<figure>\n<figcaption><b>" + escape_html(figure.title) + "</b> " + escape_html(figure.caption) +
                 "</figcaption>\n" + draw_svg(figure.plot) + "\n</figure>\n";
      }
    } catch (const Error& problem) {
      can_draw_ = false;
      html_ += "<p class=\"absent\">The plots could not be drawn: " + escape_html(problem.what()) +
               ". The tables have the numbers.</p>\n" + beside;
      return;
    }
    html_ += legend() + "<div class=\"figures\">\n" + drawn + beside + "</div>\n";
  }

  std::string legend() const {
    std::string html = "<p class=\"legend\">";
    for (std::size_t i = 0; i < shown_.size(); ++i)
      html += "<span>" + legend_key(styles_[i]) + escape_html(shown_[i].label) + "</span> ";
    return html + "</p>\n";
  }

  bool none_retrieves() const {
    return std::all_of(shown_.begin(), shown_.end(), [](const RunSummary& run) {
      return std::all_of(run.passkey.begin(), run.passkey.end(), [](const PasskeyCell& cell) { return cell.correct == 0; });
    });
  }

  const std::vector<RunSummary>& runs_;
  std::vector<RunSummary> shown_;  // of the seeds of one configuration, their average
  std::vector<RunStyle> styles_;
  std::string output_;
  std::string html_;
  bool can_draw_ = true;
};

}  // namespace

void write_report(const std::vector<std::string>& run_directories, const std::string& output) {
  if (run_directories.empty()) throw config_error("report: name at least one run directory");
  const std::vector<RunSummary> runs = read_run_summaries(run_directories);
  write_file_atomically(output, Page(runs, output).str());
}

}  // namespace longwave
