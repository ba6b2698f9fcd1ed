#include "jobs/report/run_summary.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include "core/base/error.h"
#include "jobs/report/config_lines.h"
#include "jobs/run_directory/metrics_log.h"
#include "jobs/run_directory/rank_log.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

constexpr double slow_rank_factor = 1.15;  // a rank is called slow when its own work takes so much longer than the median
constexpr std::size_t problems_per_rank = 5;

double number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : not_measured;
}

std::int64_t integer(const Json& object, const char* key) {
  const double value = number(object, key);
  return std::isfinite(value) ? static_cast<std::int64_t>(value) : 0;
}

std::string text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

double median(std::vector<double> values) {
  if (values.empty()) return not_measured;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A report shows what there is: a file that is missing or damaged becomes a line in run.missing.
bool try_to(RunSummary& run, const std::function<void()>& read) {
  try {
    read();
    return true;
  } catch (const Error& problem) {
    run.missing.push_back(problem.what());
    return false;
  }
}

// An object of the run directory; null, with a line in run.missing, when it is absent or damaged.
Json read_object(RunSummary& run, const char* name, const char* what) {
  const std::string path = run.directory + "/" + name;
  if (!fs::exists(path)) {
    run.missing.push_back(fmt::format("no {} ({})", what, name));
    return nullptr;
  }
  Json value;
  if (!try_to(run, [&] { value = read_json(path); })) return nullptr;
  if (value.is_object()) return value;
  run.missing.push_back(fmt::format("{} is not a JSON object", path));
  return nullptr;
}

void take_status(RunSummary& run) {
  try_to(run, [&] { run.status = read_status(run.directory); });
  if (!run.status) run.missing.push_back("no status (status.json)");
}

void take_metrics(RunSummary& run) {
  std::vector<Json> lines;
  try_to(run, [&] { lines = read_metrics(run.directory); });
  double tokens_per_step = not_measured;
  for (const Json& line : lines) {
    MetricPoint point;
    point.step = integer(line, "step");
    point.tokens = number(line, "tokens");
    point.seconds = number(line, "seconds");
    point.loss = number(line, "loss");
    point.validation_loss = number(line, "validation_loss");
    point.grad_norm = number(line, "grad_norm");
    point.tokens_per_second = number(line, "tokens_per_second");
    point.mfu = number(line, "mfu");
    if (point.step > 0 && std::isfinite(point.tokens)) tokens_per_step = point.tokens / static_cast<double>(point.step);
    run.metrics.push_back(point);
  }
  if (run.metrics.empty()) run.missing.push_back("no training metrics (metrics.jsonl)");
  // A validation line need not repeat the tokens: every step takes the same number.
  for (MetricPoint& point : run.metrics) {
    if (!std::isfinite(point.tokens)) point.tokens = tokens_per_step * static_cast<double>(point.step);
  }
}

void take_perplexity(RunSummary& run) {
  const Json file = read_object(run, "eval/perplexity.json", "perplexity by length");
  if (file.is_null()) return;
  if (integer(file, "train_length") > 0) run.train_length = integer(file, "train_length");
  for (const Json& entry : file.value("lengths", Json::array())) {
    if (!entry.is_object() || integer(entry, "length") <= 0) continue;
    LengthResult result;
    result.length = integer(entry, "length");
    result.perplexity = number(entry, "perplexity");
    result.tail_perplexity = number(entry, "tail_perplexity");
    result.last_64_perplexity = number(entry, "last_64_perplexity");
    for (const Json& bin : entry.value("loss_by_position", Json::array())) {
      result.loss_by_position.push_back({integer(bin, "begin"), integer(bin, "end"), number(bin, "loss")});
    }
    run.lengths.push_back(std::move(result));
  }
  std::sort(run.lengths.begin(), run.lengths.end(), [](const auto& a, const auto& b) { return a.length < b.length; });
}

void take_passkey(RunSummary& run) {
  const Json file = read_object(run, "eval/passkey.json", "passkey results");
  if (file.is_null()) return;
  for (const Json& entry : file.value("cells", Json::array())) {
    if (!entry.is_object() || integer(entry, "trials") <= 0) continue;
    run.passkey.push_back({integer(entry, "length"), number(entry, "depth"), integer(entry, "correct"), integer(entry, "trials"),
                           number(entry, "low"), number(entry, "high"), number(entry, "digits")});
  }
  if (run.passkey.empty()) run.missing.push_back("no passkey trials (eval/passkey.json)");
}

void count_event(RankActivity& rank, const Json& line) {
  ++rank.events;
  if (!text(line, "host").empty()) rank.host = text(line, "host");
  if (!text(line, "phase").empty()) rank.last_phase = text(line, "phase");
  rank.last_step = std::max(rank.last_step, integer(line, "step"));
  const std::string level = text(line, "level");
  if (level != "warning" && level != "error") return;
  rank.problems.push_back(fmt::format("step {}: {} {}", integer(line, "step"), text(line, "event"), text(line, "message")));
  if (rank.problems.size() > problems_per_rank) rank.problems.erase(rank.problems.begin());
}

RankActivity rank_activity(const std::string& directory, int number_of_rank) {
  RankActivity rank;
  rank.rank = number_of_rank;
  double busy = 0, elapsed = 0;
  for (const Json& line : read_rank_log(directory, number_of_rank)) {
    count_event(rank, line);
    if (text(line, "event") != "step") continue;
    // Without the wait for others: a slow rank is the one that others wait for.
    const double own = number(line, "data_seconds") + number(line, "forward_seconds") + number(line, "backward_seconds") +
                       number(line, "optimizer_seconds") - number(line, "exposed_communication_seconds");
    if (!std::isfinite(own) || !std::isfinite(number(line, "seconds"))) continue;
    busy += own;
    elapsed += number(line, "seconds");
  }
  if (elapsed > 0) rank.busy_share = busy / elapsed;
  return rank;
}

void take_rank_logs(RunSummary& run) {
  std::vector<double> shares;
  for (int rank = 0; fs::exists(fmt::format("{}/logs/rank-{:05}.jsonl", run.directory, rank)); ++rank) {
    try_to(run, [&] { run.ranks.push_back(rank_activity(run.directory, rank)); });
  }
  for (const RankActivity& rank : run.ranks) {
    if (std::isfinite(rank.busy_share)) shares.push_back(rank.busy_share);
  }
  if (run.ranks.empty()) run.missing.push_back("no logs of the ranks (logs/)");
  // The lower median, so that of two ranks one can be slow.
  const double middle = median(std::move(shares));
  for (RankActivity& rank : run.ranks) rank.slow = rank.busy_share > slow_rank_factor * middle;
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
  double last = not_measured;
  for (const MetricPoint& point : metrics) {
    if (std::isfinite(point.seconds)) last = point.seconds;
  }
  return last;
}

std::string RunSummary::state() const { return status ? name_of(status->state) : "unknown"; }

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
  const bool configured = fs::exists(path / "config.yaml", failure);
  if (!configured && !fs::exists(path / "status.json", failure)) {
    throw data_error("{}: not a run directory (it has no config.yaml); name one that `longwave train` made", directory);
  }
  run.name = fs::absolute(path).lexically_normal().filename().string();
  if (configured) read_config(run);
  else run.missing.push_back("no configuration (config.yaml), which is written when the first step begins");
  run.train_length = run.sizes.context;
  take_status(run);
  run.provenance = read_object(run, "provenance.json", "provenance");
  take_metrics(run);
  take_perplexity(run);
  take_passkey(run);
  take_rank_logs(run);
  find_files(run);
  run.label = run.name;
  return run;
}

void label_runs(std::vector<RunSummary>& runs) {
  std::set<std::string> kinds;
  for (const RunSummary& run : runs) kinds.insert(run.kind);
  const bool kinds_differ = kinds.size() == runs.size() && !kinds.contains("");
  for (RunSummary& run : runs) run.label = kinds_differ ? run.kind : run.name;
}

std::vector<RunSummary> read_run_summaries(const std::vector<std::string>& directories) {
  std::vector<RunSummary> runs;
  for (const std::string& directory : directories) runs.push_back(read_run_summary(directory));
  label_runs(runs);
  return runs;
}

}  // namespace longwave
