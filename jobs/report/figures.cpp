#include "jobs/report/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "jobs/report/format.h"
#include "jobs/report/seeds.h"

namespace longwave {
namespace {

constexpr std::size_t curve_points = 250;  // more than a page shows, few enough to keep the file small

using Points = std::vector<std::pair<double, double>>;

// Means over equal stretches of the curve.
Points thin(const Points& points) {
  if (points.size() <= curve_points) return points;
  Points thinned;
  for (std::size_t i = 0; i < curve_points; ++i) {
    const std::size_t begin = i * points.size() / curve_points, end = (i + 1) * points.size() / curve_points;
    double x = 0, y = 0;
    for (std::size_t j = begin; j < end; ++j) {
      x += points[j].first;
      y += points[j].second;
    }
    thinned.emplace_back(x / static_cast<double>(end - begin), y / static_cast<double>(end - begin));
  }
  return thinned;
}

Curve styled(Points points, const RunStyle& style, bool markers) {
  return {std::move(points), {}, style.color, style.dash, markers ? style.marker : 0};
}

struct Quantity {
  const char* name;
  const char* title;
  const char* y_label;
  double MetricPoint::*value;
  bool y_log;
  bool markers;
  const char* caption;
};

Figure metric_figure(const Quantity& quantity, const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles) {
  Figure figure{quantity.title, quantity.caption, {}};
  figure.plot.name = quantity.name;
  figure.plot.x_label = "tokens seen (millions)";
  figure.plot.y_label = quantity.y_label;
  figure.plot.y_log = quantity.y_log;
  figure.plot.y_from_zero = !quantity.y_log;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Points points;
    for (const MetricPoint& point : runs[i].metrics) {
      const double value = point.*quantity.value;
      if (std::isfinite(value) && std::isfinite(point.tokens)) points.emplace_back(point.tokens / 1e6, value);
    }
    const bool markers = quantity.markers || points.size() == 1;
    figure.plot.curves.push_back(styled(thin(points), styles[i], markers));
  }
  return figure;
}

// A vertical line at each training length there is.
std::vector<Mark> training_lengths(const std::vector<RunSummary>& runs) {
  std::set<std::int64_t> lengths;
  for (const RunSummary& run : runs) {
    if (run.train_length > 0) lengths.insert(run.train_length);
  }
  std::vector<Mark> marks;
  for (const std::int64_t length : lengths) {
    marks.push_back(
        {static_cast<double>(length), lengths.size() == 1 ? "training length" : fmt::format("trained at {}", length)});
  }
  return marks;
}

Figure perplexity_figure(const char* name, const char* title, const char* caption, double LengthResult::*value,
                         const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles) {
  Figure figure{title, caption, {}};
  Plot& plot = figure.plot;
  plot.name = name;
  plot.x_label = "evaluated length (tokens)";
  plot.y_label = "perplexity";
  plot.x_log = plot.y_log = true;
  std::set<std::int64_t> lengths;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Points points;
    std::vector<double> spread;
    for (const LengthResult& result : runs[i].lengths) {
      points.emplace_back(static_cast<double>(result.length), result.*value);
      spread.push_back(spread_over_seeds(runs[i], [&](const RunSummary& seed) { return seed.at_length(result.length)->*value; }));
      lengths.insert(result.length);
    }
    plot.curves.push_back(styled(std::move(points), styles[i], true));
    if (!runs[i].seeds.empty()) plot.curves.back().spread = std::move(spread);
  }
  plot.x_ticks.assign(lengths.begin(), lengths.end());
  plot.marks = training_lengths(runs);
  return figure;
}

// The longest length that every run with results has positions of; 0 if there is none.
std::int64_t longest_common_length(const std::vector<RunSummary>& runs) {
  std::set<std::int64_t> common;
  bool first = true;
  for (const RunSummary& run : runs) {
    std::set<std::int64_t> own;
    for (const LengthResult& result : run.lengths) {
      if (!result.loss_by_position.empty()) own.insert(result.length);
    }
    if (own.empty()) continue;
    if (first) common = own;
    else std::erase_if(common, [&](std::int64_t length) { return !own.contains(length); });
    first = false;
  }
  return common.empty() ? 0 : *common.rbegin();
}

Figure position_figure(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles) {
  const std::int64_t length = longest_common_length(runs);
  Figure figure{"Loss by position", fmt::format("Mean loss of the targets at each position of chunks of {} tokens.", length), {}};
  Plot& plot = figure.plot;
  plot.name = "position";
  plot.x_label = "position in the chunk (tokens)";
  plot.y_label = "loss (nats per token)";
  plot.x_log = true;
  std::set<std::int64_t> ticks;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Points points;
    if (const LengthResult* result = runs[i].at_length(length)) {
      for (const PositionLoss& bin : result->loss_by_position) {
        points.emplace_back(std::max(1.0, 0.5 * static_cast<double>(bin.begin + bin.end)), bin.loss);
      }
    }
    plot.curves.push_back(styled(thin(points), styles[i], false));
  }
  for (std::int64_t tick = length; tick >= 8; tick /= 2) ticks.insert(tick);
  plot.x_ticks.assign(ticks.begin(), ticks.end());
  plot.marks = training_lengths(runs);
  return figure;
}

void add_if_drawable(std::vector<Figure>& figures, Figure figure) {
  if (!figure.plot.empty()) figures.push_back(std::move(figure));
}

}  // namespace

std::vector<Figure> training_figures(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles) {
  const Quantity quantities[] = {
      {"loss", "Training loss", "nats per token", &MetricPoint::loss, true, false, "Log scale."},
      {"validation", "Validation loss", "nats per token", &MetricPoint::validation_loss, true, true,
       "Log scale; text held out of training."},
      {"throughput", "Throughput", "tokens per second", &MetricPoint::tokens_per_second, false, false, "All ranks together."},
      {"gradient", "Gradient norm", "norm before clipping", &MetricPoint::grad_norm, true, false, "Log scale."},
  };
  std::vector<Figure> figures;
  for (const Quantity& quantity : quantities) add_if_drawable(figures, metric_figure(quantity, runs, styles));
  return figures;
}

std::vector<Figure> length_figures(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles) {
  std::vector<Figure> figures;
  add_if_drawable(figures, perplexity_figure("perplexity", "Perplexity by length, all targets",
                                             "Averages over all positions, so short contexts are in it at every length.",
                                             &LengthResult::perplexity, runs, styles));
  add_if_drawable(figures, perplexity_figure("tail", "Perplexity by length, last half of the targets",
                                             "Only targets that have at least half the length before them.",
                                             &LengthResult::tail_perplexity, runs, styles));
  add_if_drawable(figures, perplexity_figure("last64", "Perplexity by length, last 64 targets",
                                             "Only targets with (nearly) the whole length before them.",
                                             &LengthResult::last_64_perplexity, runs, styles));
  add_if_drawable(figures, position_figure(runs, styles));
  return figures;
}

std::vector<Figure> passkey_figures(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles) {
  Figure figure{"Passkey accuracy by length", "Share of prompts whose five digits all come back right, all depths together.", {}};
  Plot& plot = figure.plot;
  plot.name = "passkey";
  plot.x_label = "prompt length (tokens)";
  plot.y_label = "prompts answered exactly";
  plot.x_log = true;
  plot.y_percent = true;
  std::set<std::int64_t> lengths;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::set<std::int64_t> own;
    for (const PasskeyCell& cell : runs[i].passkey) own.insert(cell.length);
    Points points;
    for (const std::int64_t length : own) points.emplace_back(static_cast<double>(length), runs[i].passkey_accuracy(length));
    plot.curves.push_back(styled(std::move(points), styles[i], true));
    lengths.insert(own.begin(), own.end());
  }
  plot.x_ticks.assign(lengths.begin(), lengths.end());
  plot.marks = training_lengths(runs);
  std::vector<Figure> figures;
  add_if_drawable(figures, std::move(figure));
  return figures;
}

}  // namespace longwave
