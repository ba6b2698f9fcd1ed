// What a report needs to know of a run, read from its directory alone. A run may be unfinished, may have died, may never
// have been evaluated: whatever is missing is left empty and named in `missing`.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "jobs/run_directory/status.h"

namespace longwave {

inline constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

struct MetricPoint {  // a line of metrics.jsonl; what the line does not have is not_measured
  std::int64_t step = 0;
  double tokens = not_measured;   // seen since the run began
  double seconds = not_measured;  // of training since the run began
  double loss = not_measured;     // nats per token
  double validation_loss = not_measured;
  double grad_norm = not_measured;
  double tokens_per_second = not_measured;
  double mfu = not_measured;  // share of the machine's measured or stated matrix-product rate
};

struct PositionLoss {  // mean loss of the targets at positions [begin, end), nats
  std::int64_t begin = 0;
  std::int64_t end = 0;
  double loss = not_measured;
};

struct LengthResult {
  std::int64_t length = 0;
  double perplexity = not_measured;          // over all targets
  double tail_perplexity = not_measured;     // over the last half of the targets
  double last_64_perplexity = not_measured;  // over the last 64 targets
  std::vector<PositionLoss> loss_by_position;
};

struct PasskeyCell {
  std::int64_t length = 0;
  double depth = 0;
  std::int64_t correct = 0;
  std::int64_t trials = 0;
  double low = not_measured;  // Wilson interval of the accuracy
  double high = not_measured;
  double digits = not_measured;  // share of digits right; chance is 0.1
};

struct ConfigLine {  // a value of config.yaml
  std::string key;   // dotted
  std::string value;
  std::string source;  // where it came from
};

struct RankActivity {  // what logs/rank-NNNNN.jsonl says of a rank
  std::int64_t rank = 0;
  std::string host;
  std::int64_t events = 0;
  std::int64_t last_step = 0;
  std::string last_phase;
  double busy_share = not_measured;   // of the time in steps, what is its own work and not a wait for others
  bool slow = false;                  // busy_share well above the median of all ranks
  std::vector<std::string> problems;  // warnings and errors, the last few
};

struct ModelSizes {
  std::int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_dim = 0, mlp_hidden = 0, context = 0, vocabulary = 0;
  bool tied = false, qk_norm = false;
  bool operator==(const ModelSizes&) const = default;
  // Trained parameters: embedding, blocks, final norm and, unless tied, the head. 0 while a size is unknown.
  std::int64_t parameters() const;
};

struct RunSummary {
  std::string directory;
  std::string name;
  std::string kind;   // position.kind
  std::string label;  // what the run is called beside the others: its kind where that tells them apart, else its name
  ModelSizes sizes;
  std::int64_t train_length = 0;

  std::vector<ConfigLine> configuration;
  std::optional<Status> status;
  Json provenance;  // as written; null without the file
  std::vector<MetricPoint> metrics;
  std::vector<LengthResult> lengths;  // ascending
  std::vector<PasskeyCell> passkey;
  std::vector<RankActivity> ranks;
  std::vector<std::string> files;    // paths inside the directory that exist, for links
  std::vector<std::string> missing;  // in words: "no passkey results (eval/passkey.json)"
  std::vector<RunSummary> seeds;     // the runs that this is the average of; empty for one that was trained

  double final_loss() const;  // mean of the last tenth of the logged losses: single steps are noisy
  double final_validation_loss() const;
  double tokens() const;
  double tokens_per_second() const;  // median over the run
  double mfu() const;                // median over the run
  double training_seconds() const;
  std::string state() const;  // of status.json, "unknown" without one
  const LengthResult* at_length(std::int64_t length) const;
  // Share of prompts answered exactly, all depths together; not_measured without trials at this length.
  double passkey_accuracy(std::int64_t length) const;
};

// Throws data_error when `directory` does not exist or is no run directory: it has neither config.yaml nor status.json.
RunSummary read_run_summary(const std::string& directory);

// So that they can be told apart.
void label_runs(std::vector<RunSummary>& runs);

// Several runs, labelled.
std::vector<RunSummary> read_run_summaries(const std::vector<std::string>& directories);

}  // namespace longwave
