#include "jobs/length_evaluation.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/file.h"
#include "core/base/stop_request.h"
#include "parallel/agreement.h"

namespace longwave {
namespace {

// Sums are taken by every shard of a model alike, so only the first shard's count.
void reduce_sums(Job& job, std::vector<double>& flat) {
  if (job.mesh->tensor_rank() != 0) std::fill(flat.begin(), flat.end(), 0.0);
  job.control.all_reduce(flat.data(), static_cast<std::int64_t>(flat.size()), Element::f64, Reduction::sum);
}

EvaluationShare share_of(const Job& job) { return {job.mesh->data_rank(), job.mesh->shape().data, 8192}; }

// Shards of one model must stop at the same pass, or one would wait in a reduction for the other.
void stop_if_asked(Job& job) {
  const std::int64_t signal = all_reduce_value(job.mesh->tensor_control(), static_cast<std::int64_t>(stop_requested()), Reduction::max);
  if (signal != 0) throw Error(ExitCode::requeue, fmt::format("stopped by {} during evaluation", signal_name(static_cast<int>(signal))));
}

PerplexityOptions perplexity_options(const Config& config) {
  PerplexityOptions options;
  options.lengths = config.evaluate.lengths;
  options.tokens = config.evaluate.tokens;
  options.train_length = config.model.context;
  return options;
}

PasskeyOptions passkey_options(const Config& config) {
  PasskeyOptions options;
  options.lengths = config.evaluate.passkey.lengths;
  options.depths = config.evaluate.passkey.depths;
  options.trials = config.evaluate.passkey.trials;
  options.seed = config.run.seed;
  return options;
}

// How much of the evaluation's arithmetic is done: a long sequence costs more a token than a short one.
class Meter {
 public:
  Meter(const Job& job, const PerplexitySums* perplexity, const PasskeySums& passkey) : model_(*job.model) {
    if (perplexity != nullptr) {
      for (const PerplexitySums::Length& length : perplexity->lengths()) total_ += length.chunks * cost(length.length);
    }
    for (const PasskeySums::Cell& cell : passkey.cells()) total_ += passkey.trials() * cost(cell.length);
    total_ = std::max<std::int64_t>(total_ / job.mesh->shape().data, 1);
  }

  std::int64_t total() const { return total_; }
  // `done` sequences of the current length and cell.
  std::int64_t advance(std::int64_t length, std::int64_t done) {
    if (done <= last_) last_ = 0;
    done_ += (done - last_) * cost(length);
    last_ = done;
    return std::min(done_, total_);
  }

 private:
  std::int64_t cost(std::int64_t length) const {
    return static_cast<std::int64_t>(model_.forward_operations_per_token(length) * static_cast<double>(length) / 1e3);
  }

  const Transformer& model_;
  std::int64_t total_ = 0;
  std::int64_t done_ = 0;
  std::int64_t last_ = 0;
};

}  // namespace

LengthEvaluation evaluate_lengths(Job& job, Progress& progress, const EvaluationPulse& pulse) {
  const Config& config = job.config;
  LengthEvaluation result;
  std::optional<TokenStream> stream;
  std::optional<PerplexitySums> perplexity;
  if (job.data->has_validation()) {
    stream = job.data->validation();
    perplexity.emplace(perplexity_options(config), stream->size());
  } else {
    result.notes.push_back("no perplexity: data.validation is not set");
  }
  PasskeySums passkey(passkey_options(config), job.data->passkeys());

  Meter meter(job, perplexity ? &*perplexity : nullptr, passkey);
  progress.begin_phase(0, meter.total());
  const auto report = [&](const char* what) {
    return [&, what](std::int64_t length, std::int64_t done, std::int64_t) {
      pulse();
      stop_if_asked(job);
      progress.update(meter.advance(length, done), fmt::format("evaluate  {} at {} tokens", what, length), false);
    };
  };
  if (perplexity) {
    together(job.control, [&] { evaluate_perplexity(*job.model, *stream, share_of(job), *perplexity, report("perplexity")); });
    reduce_sums(job, perplexity->flat());
    result.perplexity = perplexity->results();
    result.notes.insert(result.notes.end(), perplexity->notes().begin(), perplexity->notes().end());
  }
  together(job.control, [&] { evaluate_passkey(*job.model, job.data->passkeys(), share_of(job), passkey, report("passkey")); });
  reduce_sums(job, passkey.flat());
  result.passkey = passkey.results();
  result.notes.insert(result.notes.end(), passkey.notes().begin(), passkey.notes().end());
  progress.end_line();
  return result;
}

double validation_loss(Job& job, std::int64_t tokens, const EvaluationPulse& pulse) {
  PerplexityOptions options;
  options.lengths = {job.config.model.context};
  options.tokens = tokens;
  options.train_length = job.config.model.context;
  const TokenStream stream = job.data->validation();
  PerplexitySums sums(options, stream.size());
  const auto alive = [&](std::int64_t, std::int64_t, std::int64_t) { pulse(); };
  together(job.control, [&] { evaluate_perplexity(*job.model, stream, share_of(job), sums, alive); });
  reduce_sums(job, sums.flat());
  const std::vector<PerplexityResult> results = sums.results();
  return results.empty() ? std::nan("") : std::log(results.front().perplexity);
}

void write_length_evaluation(const std::string& folder, std::int64_t train_length, const LengthEvaluation& evaluation) {
  make_directories(folder);
  write_file_atomically(folder + "/perplexity.json", perplexity_json(train_length, evaluation.perplexity));
  write_file_atomically(folder + "/perplexity.csv", perplexity_csv(evaluation.perplexity));
  write_file_atomically(folder + "/passkey.json", passkey_json(evaluation.passkey));
  write_file_atomically(folder + "/passkey.csv", passkey_csv(evaluation.passkey));
}

std::string describe(const LengthEvaluation& evaluation, std::int64_t train_length) {
  std::string text = fmt::format("{:>8} {:>8} {:>11} {:>11} {:>9} {:>9}\n", "length", "of train", "perplexity", "last half", "passkey",
                                 "digits");
  std::vector<std::int64_t> lengths;
  for (const PerplexityResult& row : evaluation.perplexity) lengths.push_back(row.length);
  for (const PasskeyResult& cell : evaluation.passkey) lengths.push_back(cell.length);
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  for (const std::int64_t length : lengths) {
    text += fmt::format("{:>8} {:>7.3g}x", length, static_cast<double>(length) / static_cast<double>(train_length));
    const auto row = std::find_if(evaluation.perplexity.begin(), evaluation.perplexity.end(), [&](const auto& r) { return r.length == length; });
    text += row == evaluation.perplexity.end() ? fmt::format(" {:>11} {:>11}", "-", "-")
                                               : fmt::format(" {:>11.3f} {:>11.3f}", row->perplexity, row->tail_perplexity);
    std::int64_t correct = 0, trials = 0, cells = 0;
    double digits = 0;
    for (const PasskeyResult& cell : evaluation.passkey) {
      if (cell.length != length) continue;
      correct += cell.correct;
      trials += cell.trials;
      digits += cell.digits;
      ++cells;
    }
    text += cells == 0 ? fmt::format(" {:>9} {:>9}\n", "-", "-")
                       : fmt::format(" {:>7.0f} % {:>7.0f} %\n", 100.0 * static_cast<double>(correct) / static_cast<double>(trials),
                                     100.0 * digits / static_cast<double>(cells));
  }
  return text;
}

}  // namespace longwave
