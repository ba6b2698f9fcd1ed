#include "jobs/report/run_summary.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "core/base/error.h"
#include "jobs/report/config_lines.h"

namespace longwave {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr double slow_rank_factor = 1.15;  // a rank is called slow when its share of a step is so far above the median
constexpr std::size_t problems_per_rank = 5;

double number(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : not_measured;
}

std::int64_t integer(const json& object, const char* key) {
  const double value = number(object, key);
  return std::isfinite(value) ? static_cast<std::int64_t>(value) : 0;
}

std::string text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

double median(std::vector<double> values) {
  if (values.empty()) return not_measured;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The file as JSON; null, with a line in `missing`, when it is absent or broken: a report shows what there is.
json read_json(const RunSummary& run, const char* name, const char* what, std::vector<std::string>& missing) {
  std::ifstream file(fs::path(run.directory) / name);
  if (!file) {
    missing.push_back(fmt::format("no {} ({})", what, name));
    return nullptr;
  }
  json value = json::parse(file, nullptr, false);
  if (value.is_object()) return value;
  missing.push_back(fmt::format("{} cannot be read: it is not a JSON object", name));
  return nullptr;
}

// Calls `use` with every line that is a JSON object; the last line of a killed run may be cut short.
template <class Use>
std::int64_t read_json_lines(const fs::path& path, Use use) {
  std::ifstream file(path);
  std::int64_t unreadable = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const json value = json::parse(line, nullptr, false);
    if (value.is_object()) use(value);
    else ++unreadable;
  }
  return unreadable;
}

void read_status(RunSummary& run) {
  run.status = read_json(run, "status.json", "status", run.missing);
  run.state = "unknown";
  if (run.status.is_null()) return;
  run.state = text(run.status, "state");
  run.step = integer(run.status, "step");
  run.steps = integer(run.status, "steps");
  run.attempt = integer(run.status, "attempt");
  run.reason = text(run.status, "reason");
}

void read_metrics(RunSummary& run) {
  const fs::path path = fs::path(run.directory) / "metrics.jsonl";
  const std::int64_t unreadable = read_json_lines(path, [&](const json& line) {
    MetricPoint point;
    point.step = integer(line, "step");
    point.tokens = number(line, "tokens");
    point.loss = number(line, "loss");
    point.validation_loss = number(line, "validation_loss");
    point.grad_norm = number(line, "grad_norm");
    point.tokens_per_second = number(line, "tokens_per_second");
    point.mfu = number(line, "mfu");
    run.metrics.push_back(point);
  });
  if (unreadable > 0)
    run.missing.push_back(fmt::format("{} unreadable line{} in metrics.jsonl", unreadable, unreadable == 1 ? "" : "s"));
  if (run.metrics.empty()) run.missing.push_back("no training metrics (metrics.jsonl)");
  // A validation line need not repeat the tokens: every step takes the same number.
  double tokens_per_step = not_measured;
  for (const MetricPoint& point : run.metrics) {
    if (point.step > 0 && std::isfinite(point.tokens)) tokens_per_step = point.tokens / static_cast<double>(point.step);
  }
  for (MetricPoint& point : run.metrics) {
    if (!std::isfinite(point.tokens)) point.tokens = tokens_per_step * static_cast<double>(point.step);
  }
}

void read_perplexity(RunSummary& run) {
  const json file = read_json(run, "eval/perplexity.json", "perplexity by length", run.missing);
  if (file.is_null()) return;
  if (integer(file, "train_length") > 0) run.train_length = integer(file, "train_length");
  for (const json& entry : file.value("lengths", json::array())) {
    if (!entry.is_object() || integer(entry, "length") <= 0) continue;
    LengthResult result;
    result.length = integer(entry, "length");
    result.perplexity = number(entry, "perplexity");
    result.tail_perplexity = number(entry, "tail_perplexity");
    result.last_64_perplexity = number(entry, "last_64_perplexity");
    for (const json& bin : entry.value("loss_by_position", json::array())) {
      result.loss_by_position.push_back({integer(bin, "begin"), integer(bin, "end"), number(bin, "loss")});
    }
    run.lengths.push_back(std::move(result));
  }
  std::sort(run.lengths.begin(), run.lengths.end(), [](const auto& a, const auto& b) { return a.length < b.length; });
}

void read_passkey(RunSummary& run) {
  const json file = read_json(run, "eval/passkey.json", "passkey results", run.missing);
  if (file.is_null()) return;
  for (const json& entry : file.value("cells", json::array())) {
    if (!entry.is_object() || integer(entry, "trials") <= 0) continue;
    run.passkey.push_back({integer(entry, "length"), number(entry, "depth"), integer(entry, "correct"), integer(entry, "trials"),
                           number(entry, "low"), number(entry, "high"), number(entry, "digits")});
  }
  if (run.passkey.empty()) run.missing.push_back("no passkey trials (eval/passkey.json)");
}

RankActivity read_rank_log(const fs::path& path) {
  RankActivity rank;
  std::vector<double> step_seconds;
  read_json_lines(path, [&](const json& line) {
    ++rank.events;
    rank.rank = integer(line, "rank");
    if (!text(line, "host").empty()) rank.host = text(line, "host");
    rank.last_step = std::max(rank.last_step, integer(line, "step"));
    if (!text(line, "phase").empty()) rank.last_phase = text(line, "phase");
    // What a rank computes itself; the whole step is as long as the slowest rank's on all of them.
    const double own = number(line, "compute_seconds");
    const double seconds = std::isfinite(own) ? own : number(line, "seconds");
    if (text(line, "phase") == "step" && std::isfinite(seconds)) step_seconds.push_back(seconds);
    const std::string event = text(line, "event");
    if (event == "warning" || event == "error") {
      rank.problems.push_back(fmt::format("step {}: {}", integer(line, "step"), text(line, "message")));
      if (rank.problems.size() > problems_per_rank) rank.problems.erase(rank.problems.begin());
    }
  });
  rank.step_seconds = median(std::move(step_seconds));
  return rank;
}

void read_rank_logs(RunSummary& run) {
  std::vector<fs::path> paths;
  std::error_code ignored;  // no folder, no logs: said below
  for (const auto& entry : fs::directory_iterator(fs::path(run.directory) / "logs", ignored)) {
    if (entry.path().filename().string().starts_with("rank-") && entry.path().extension() == ".jsonl")
      paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<double> typical;
  for (const fs::path& path : paths) {
    run.ranks.push_back(read_rank_log(path));
    if (std::isfinite(run.ranks.back().step_seconds)) typical.push_back(run.ranks.back().step_seconds);
  }
  if (run.ranks.empty()) run.missing.push_back("no logs of the ranks (logs/)");
  const double middle = median(std::move(typical));
  for (RankActivity& rank : run.ranks) rank.slow = rank.step_seconds > slow_rank_factor * middle;
}

void find_files(RunSummary& run) {
  for (const char* name :
       {"config.yaml", "provenance.json", "status.json", "metrics.jsonl", "eval/perplexity.json", "eval/perplexity.csv",
        "eval/passkey.json", "eval/passkey.csv", "weights.safetensors", "logs", "tensorboard", "checkpoints"}) {
    std::error_code ignored;
    if (fs::exists(fs::path(run.directory) / name, ignored)) run.files.push_back(name);
  }
}

}  // namespace

std::int64_t ModelSizes::parameters() const {
  if (layers <= 0 || width <= 0 || heads <= 0 || head_dim <= 0 || mlp_hidden <= 0 || vocabulary <= 0) return 0;
  const std::int64_t groups = kv_heads > 0 ? kv_heads : heads;
  const std::int64_t attention = width * head_dim * (2 * heads + 2 * groups) + (qk_norm ? 2 * head_dim : 0);
  const std::int64_t block = attention + 3 * width * mlp_hidden + 2 * width;
  return layers * block + width + vocabulary * width * (tied ? 1 : 2);
}

double RunSummary::final_loss() const {
  std::vector<double> losses;
  for (const MetricPoint& point : metrics) {
    if (std::isfinite(point.loss)) losses.push_back(point.loss);
  }
  if (losses.empty()) return not_measured;
  const std::size_t count = std::max<std::size_t>(1, losses.size() / 10);
  double sum = 0;
  for (std::size_t i = losses.size() - count; i < losses.size(); ++i) sum += losses[i];
  return sum / static_cast<double>(count);
}

double RunSummary::final_validation_loss() const {
  double last = not_measured;
  for (const MetricPoint& point : metrics) {
    if (std::isfinite(point.validation_loss)) last = point.validation_loss;
  }
  return last;
}

double RunSummary::tokens() const {
  double most = not_measured;
  for (const MetricPoint& point : metrics) {
    if (std::isfinite(point.tokens)) most = std::isfinite(most) ? std::max(most, point.tokens) : point.tokens;
  }
  return most;
}

double RunSummary::tokens_per_second() const {
  std::vector<double> rates;
  for (const MetricPoint& point : metrics) {
    if (std::isfinite(point.tokens_per_second)) rates.push_back(point.tokens_per_second);
  }
  return median(std::move(rates));
}

double RunSummary::mfu() const {
  std::vector<double> shares;
  for (const MetricPoint& point : metrics) {
    if (std::isfinite(point.mfu)) shares.push_back(point.mfu);
  }
  return median(std::move(shares));
}

double RunSummary::training_seconds() const {
  double seconds = 0, before = 0;
  for (const MetricPoint& point : metrics) {
    if (!std::isfinite(point.tokens) || !(point.tokens_per_second > 0)) continue;
    seconds += (point.tokens - before) / point.tokens_per_second;
    before = point.tokens;
  }
  return seconds > 0 ? seconds : not_measured;
}

const LengthResult* RunSummary::at_length(std::int64_t length) const {
  const auto found = std::find_if(lengths.begin(), lengths.end(), [&](const auto& result) { return result.length == length; });
  return found == lengths.end() ? nullptr : &*found;
}

double RunSummary::passkey_accuracy(std::int64_t length) const {
  std::int64_t correct = 0, trials = 0;
  for (const PasskeyCell& cell : passkey) {
    if (cell.length != length) continue;
    correct += cell.correct;
    trials += cell.trials;
  }
  return trials > 0 ? static_cast<double>(correct) / static_cast<double>(trials) : not_measured;
}

RunSummary read_run_summary(const std::string& directory) {
  RunSummary run;
  run.directory = directory;
  while (run.directory.size() > 1 && run.directory.back() == '/') run.directory.pop_back();
  const fs::path path(run.directory);
  std::error_code failure;
  if (!fs::exists(path, failure)) throw data_error("{}: no such run directory", directory);
  if (!fs::is_directory(path, failure))
    throw data_error("{}: not a directory; name a run directory, such as runs/NAME", directory);
  if (!fs::exists(path / "config.yaml", failure)) {
    throw data_error("{}: not a run directory (it has no config.yaml); name one that `longwave train` made", directory);
  }
  run.name = fs::absolute(path).lexically_normal().filename().string();
  read_config(run);
  run.train_length = run.sizes.context;
  read_status(run);
  run.provenance = read_json(run, "provenance.json", "provenance", run.missing);
  read_metrics(run);
  read_perplexity(run);
  read_passkey(run);
  read_rank_logs(run);
  find_files(run);
  run.label = run.name;
  return run;
}

std::vector<RunSummary> read_run_summaries(const std::vector<std::string>& directories) {
  std::vector<RunSummary> runs;
  std::map<std::string, int> kinds;
  for (const std::string& directory : directories) {
    runs.push_back(read_run_summary(directory));
    ++kinds[runs.back().kind];
  }
  const bool kinds_differ = kinds.size() == runs.size() && !kinds.contains("");
  for (RunSummary& run : runs) run.label = kinds_differ ? run.kind : run.name;
  return runs;
}

}  // namespace longwave
