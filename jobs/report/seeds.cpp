#include "jobs/report/seeds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/eval/passkey.h"
#include "jobs/report/format.h"

namespace longwave {
namespace {

using Settings = std::map<std::string, std::string>;

// What must be the same, and takes the seed out of it.
Settings settings_of(const RunSummary& run, std::string& seed) {
  Settings settings;
  for (const ConfigLine& line : run.configuration) settings[line.key] = line.value;
  seed = settings["run.seed"];
  for (const char* key : {"run.seed", "run.name", "run.dir"}) settings.erase(key);
  return settings;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? not_measured : sum / static_cast<double>(values.size());
}

std::vector<double> measured(const std::vector<RunSummary>& runs, const Measure& measure) {
  std::vector<double> values;
  for (const RunSummary& run : runs) {
    if (const double value = measure(run); std::isfinite(value)) values.push_back(value);
  }
  return values;
}

// "small-fope" of small-fope-s1 and small-fope-s2; all the names where they share no beginning.
std::string common_name(const std::vector<RunSummary>& runs) {
  std::string common = runs.front().name;
  std::vector<std::string> names;
  for (const RunSummary& run : runs) {
    names.push_back(run.name);
    const auto [end, unused] = std::mismatch(common.begin(), common.end(), run.name.begin(), run.name.end());
    common.erase(end, common.end());
  }
  const std::size_t separator = common.find_last_of("-_.");
  if (separator != std::string::npos && separator > 0) common.erase(separator);
  return common.empty() ? join_words(names) : common;
}

std::vector<MetricPoint> average_metrics(const std::vector<RunSummary>& runs) {
  static constexpr double MetricPoint::*fields[] = {
      &MetricPoint::tokens,    &MetricPoint::seconds,           &MetricPoint::loss, &MetricPoint::validation_loss,
      &MetricPoint::grad_norm, &MetricPoint::tokens_per_second, &MetricPoint::mfu};
  std::map<std::int64_t, std::vector<const MetricPoint*>> by_step;
  for (const RunSummary& run : runs) {
    for (const MetricPoint& point : run.metrics) by_step[point.step].push_back(&point);
  }
  std::vector<MetricPoint> metrics;
  for (const auto& [step, points] : by_step) {
    MetricPoint average;
    average.step = step;
    for (const auto field : fields) {
      std::vector<double> values;
      for (const MetricPoint* point : points) {
        if (std::isfinite(point->*field)) values.push_back(point->*field);
      }
      average.*field = mean(values);
    }
    metrics.push_back(average);
  }
  return metrics;
}

// Lengths that all have.
std::vector<LengthResult> average_lengths(const std::vector<RunSummary>& runs) {
  std::vector<LengthResult> lengths;
  for (const LengthResult& first : runs.front().lengths) {
    const auto at = [&](const RunSummary& run) { return run.at_length(first.length); };
    if (!std::all_of(runs.begin(), runs.end(), at)) continue;
    LengthResult average;
    average.length = first.length;
    for (const auto value : {&LengthResult::perplexity, &LengthResult::tail_perplexity, &LengthResult::last_64_perplexity}) {
      average.*value = mean(measured(runs, [&](const RunSummary& run) { return at(run)->*value; }));
    }
    for (std::size_t bin = 0; bin < first.loss_by_position.size(); ++bin) {
      PositionLoss position = first.loss_by_position[bin];
      position.loss = mean(measured(runs, [&](const RunSummary& run) {
        const std::vector<PositionLoss>& losses = at(run)->loss_by_position;
        return bin < losses.size() && losses[bin].begin == position.begin ? losses[bin].loss : not_measured;
      }));
      average.loss_by_position.push_back(position);
    }
    lengths.push_back(std::move(average));
  }
  return lengths;
}

// The prompts of all seeds together.
std::vector<PasskeyCell> pooled_passkey(const std::vector<RunSummary>& runs) {
  std::map<std::pair<std::int64_t, double>, PasskeyCell> cells;
  for (const RunSummary& run : runs) {
    for (const PasskeyCell& cell : run.passkey) {
      const auto [at, first] = cells.try_emplace({cell.length, cell.depth}, cell);
      if (first) continue;
      PasskeyCell& sum = at->second;
      const auto before = static_cast<double>(sum.trials), added = static_cast<double>(cell.trials);
      sum.digits = (sum.digits * before + cell.digits * added) / (before + added);
      sum.correct += cell.correct;
      sum.trials += cell.trials;
      const Interval interval = wilson_interval(sum.correct, sum.trials);
      sum.low = interval.low;
      sum.high = interval.high;
    }
  }
  std::vector<PasskeyCell> pooled;
  for (const auto& [place, cell] : cells) pooled.push_back(cell);
  return pooled;
}

RunSummary average(std::vector<RunSummary> runs) {
  if (runs.size() == 1) return std::move(runs.front());
  RunSummary one = runs.front();
  one.name = common_name(runs);
  one.metrics = average_metrics(runs);
  one.lengths = average_lengths(runs);
  one.passkey = pooled_passkey(runs);
  one.seeds = std::move(runs);
  return one;
}

struct Group {
  Settings settings;
  std::set<std::string> seeds;
  std::vector<RunSummary> runs;
};

}  // namespace

std::vector<RunSummary> average_seeds(const std::vector<RunSummary>& runs) {
  std::vector<Group> groups;
  for (const RunSummary& run : runs) {
    std::string seed;
    const Settings settings = settings_of(run, seed);
    const auto takes = [&](const Group& group) { return group.settings == settings && !group.seeds.contains(seed); };
    const auto found = std::find_if(groups.begin(), groups.end(), takes);
    if (settings.empty() || run.state() != "done" || found == groups.end()) {
      // A run that is not finished takes nobody in.
      groups.push_back({run.state() == "done" ? settings : Settings{}, {seed}, {run}});
    } else {
      found->seeds.insert(seed);
      found->runs.push_back(run);
    }
  }
  std::vector<RunSummary> averages;
  for (Group& group : groups) averages.push_back(average(std::move(group.runs)));
  label_runs(averages);
  return averages;
}

double mean_over_seeds(const RunSummary& run, const Measure& measure) {
  return run.seeds.empty() ? measure(run) : mean(measured(run.seeds, measure));
}

double spread_over_seeds(const RunSummary& run, const Measure& measure) {
  const std::vector<double> values = measured(run.seeds, measure);
  if (values.size() < 2) return not_measured;
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

}  // namespace longwave
