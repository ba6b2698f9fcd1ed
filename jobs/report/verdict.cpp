#include "jobs/report/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "jobs/report/format.h"
#include "jobs/report/text_table.h"

namespace longwave {
namespace {

constexpr std::size_t named_runs = 4;  // a sentence names at most so many; of more it says the range

struct Value {
  std::string label;
  double value = not_measured;
};

using Measure = std::function<double(const RunSummary&)>;
using Format = std::string (*)(double);

std::vector<Value> measured(const std::vector<RunSummary>& runs, const Measure& measure) {
  std::vector<Value> values;
  for (const RunSummary& run : runs) {
    const double value = measure(run);
    if (!std::isnan(value)) values.push_back({run.label, value});
  }
  return values;
}

// "6.90 for fope, 25.1 for rope and 4.31 for alibi", or the range when there are many.
std::string listed(const std::vector<Value>& values, Format format) {
  std::vector<std::string> words;
  if (values.size() <= named_runs) {
    for (const Value& value : values) words.push_back(format(value.value) + " for " + value.label);
    return join_words(words);
  }
  const auto [low, high] =
      std::minmax_element(values.begin(), values.end(), [](const Value& a, const Value& b) { return a.value < b.value; });
  if (format(low->value) == format(high->value)) return format(low->value) + " for all";
  return fmt::format("between {} ({}) and {} ({})", format(low->value), low->label, format(high->value), high->label);
}

std::set<double> multiples(const std::vector<RunSummary>& runs,
                           const std::function<std::vector<std::int64_t>(const RunSummary&)>& lengths) {
  std::set<double> all;
  for (const RunSummary& run : runs) {
    if (run.train_length <= 0) continue;
    for (const std::int64_t length : lengths(run))
      all.insert(static_cast<double>(length) / static_cast<double>(run.train_length));
  }
  return all;
}

// 8x when it was evaluated by the most runs, else the longest of those that most were; 0 when nothing is past 1x.
double telling_multiple(const std::vector<double>& all, const std::function<std::size_t(double)>& runs_with) {
  std::size_t most = 0;
  for (const double multiple : all) {
    if (multiple > 1) most = std::max(most, runs_with(multiple));
  }
  double telling = 0;
  for (const double multiple : all) {
    if (multiple > 1 && most > 0 && runs_with(multiple) == most && telling != 8) telling = multiple;
  }
  return telling;
}

std::string past_training(const std::vector<RunSummary>& runs, double multiple) {
  std::set<std::int64_t> lengths;
  for (const RunSummary& run : runs) {
    if (run.train_length > 0) lengths.insert(length_at(run, multiple));
  }
  return fmt::format("{:.3g}x the training length{}", multiple,
                     lengths.size() == 1 ? fmt::format(" ({} tokens)", *lengths.begin()) : "");
}

const Value* find(const std::vector<Value>& values, const std::string& label) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const Value& value) { return value.label == label; });
  return found == values.end() ? nullptr : &*found;
}

// The last targets say what the whole length in view does; older results have only the last half.
double last_targets(const RunSummary& run, double multiple, bool last_64) {
  const LengthResult* result = run.at_length(length_at(run, multiple));
  return !result ? not_measured : last_64 ? result->last_64_perplexity : result->tail_perplexity;
}

void perplexity_verdict(const std::vector<RunSummary>& runs, std::vector<std::string>& lines) {
  const auto at = [&](double multiple, bool last_64) {
    return measured(runs, [=](const RunSummary& run) { return last_targets(run, multiple, last_64); });
  };
  const double multiple = telling_multiple(perplexity_multiples(runs), [&](double m) { return at(m, false).size(); });
  if (multiple == 0) return;
  const bool last_64 = at(multiple, true).size() == at(multiple, false).size();
  const std::vector<Value> far = at(multiple, last_64), near = at(1, last_64);
  std::string line = fmt::format("At {} the perplexity of the last {} is {}", past_training(runs, multiple),
                                 last_64 ? "64 targets" : "half of the targets", listed(far, show_perplexity));
  if (!near.empty()) line += "; at the training length it is " + listed(near, show_perplexity);
  lines.push_back(line + ".");
  const Value* fope = find(far, "fope");
  const Value* rope = find(far, "rope");
  if (fope && rope && fope->value > 0) {
    const bool lower = fope->value <= rope->value;
    lines.push_back(fmt::format("At {:.3g}x it is {:.1f} times {} for fope than for rope.", multiple,
                                lower ? rope->value / fope->value : fope->value / rope->value, lower ? "lower" : "higher"));
  }
}

void passkey_verdict(const std::vector<RunSummary>& runs, std::vector<std::string>& lines) {
  const auto at = [&](double multiple) {
    return measured(runs, [=](const RunSummary& run) { return run.passkey_accuracy(length_at(run, multiple)); });
  };
  const std::vector<double> all = passkey_multiples(runs);
  const std::vector<Value> near = at(1);
  std::vector<std::string> parts;
  if (!near.empty()) parts.push_back("at the training length " + listed(near, show_percent));
  for (const double multiple : {2.0, 8.0}) {
    const std::vector<Value> far = at(multiple);
    if (!far.empty()) parts.push_back("at " + past_training(runs, multiple) + " " + listed(far, show_percent));
  }
  if (parts.empty()) return;
  std::string line = "Share of passkey prompts answered exactly: ";
  for (std::size_t i = 0; i < parts.size(); ++i) line += (i ? "; " : "") + parts[i];
  const bool learned = std::any_of(near.begin(), near.end(), [](const Value& value) { return value.value >= 0.05; });
  lines.push_back(line + (near.empty() || learned ? "." : ". No run has learned the task, so its lengths tell nothing."));
}

void state_verdict(const std::vector<RunSummary>& runs, std::vector<std::string>& lines) {
  std::vector<std::string> unfinished;
  for (const RunSummary& run : runs) {
    if (run.status && run.status->state == RunState::done) continue;
    std::string words = fmt::format("{} ({}", run.label, run.state());
    if (run.status) {
      words += fmt::format(" at step {} of {}", show_integer(static_cast<double>(run.status->step)),
                           show_integer(static_cast<double>(run.status->steps)));
      if (!run.status->reason.empty()) words += ": " + run.status->reason;
    }
    unfinished.push_back(words + ")");
  }
  if (unfinished.empty()) return;
  if (unfinished.size() > named_runs) {
    lines.push_back(fmt::format("{} of the {} runs are not finished; of those the report has what there is so far.",
                                unfinished.size(), runs.size()));
  } else {
    lines.push_back("Not finished: " + join_words(unfinished) + ". The report has what there is so far.");
  }
}

std::vector<double> sorted(const std::set<double>& values) { return {values.begin(), values.end()}; }

std::string number_word(std::size_t number) {
  static const char* const words[] = {"No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten"};
  return number < std::size(words) ? words[number] : std::to_string(number);
}

std::string sizes_in_words(const ModelSizes& sizes) {
  if (sizes.parameters() == 0) return "";
  const bool grouped = sizes.kv_heads > 0 && sizes.kv_heads != sizes.heads;
  return fmt::format(" of {} parameters ({} layers of width {}, {} heads of {}{}, SwiGLU of {}, vocabulary {}{}{})",
                     show_count(static_cast<double>(sizes.parameters())), sizes.layers, sizes.width, sizes.heads, sizes.head_dim,
                     grouped ? fmt::format(" on {} key-value heads", sizes.kv_heads) : "", sizes.mlp_hidden, sizes.vocabulary,
                     sizes.tied ? ", tied" : "", sizes.qk_norm ? ", QK-norm" : "");
}

template <class Get>
bool all_equal(const std::vector<RunSummary>& runs, Get get) {
  return std::all_of(runs.begin(), runs.end(), [&](const RunSummary& run) { return get(run) == get(runs.front()); });
}

}  // namespace

std::int64_t length_at(const RunSummary& run, double multiple) {
  return std::llround(multiple * static_cast<double>(run.train_length));
}

std::vector<double> perplexity_multiples(const std::vector<RunSummary>& runs) {
  return sorted(multiples(runs, [](const RunSummary& run) {
    std::vector<std::int64_t> lengths;
    for (const LengthResult& result : run.lengths) lengths.push_back(result.length);
    return lengths;
  }));
}

std::vector<double> passkey_multiples(const std::vector<RunSummary>& runs) {
  return sorted(multiples(runs, [](const RunSummary& run) {
    std::vector<std::int64_t> lengths;
    for (const PasskeyCell& cell : run.passkey) lengths.push_back(cell.length);
    return lengths;
  }));
}

std::string what_was_trained(const std::vector<RunSummary>& runs) {
  const RunSummary& first = runs.front();
  const bool one = runs.size() == 1;
  std::string text = one ? "A decoder-only transformer" : number_word(runs.size()) + " decoder-only transformers";
  if (all_equal(runs, [](const RunSummary& run) { return run.sizes; })) text += sizes_in_words(first.sizes);
  else text += " of different sizes";
  if (first.train_length > 0 && all_equal(runs, [](const RunSummary& run) { return run.train_length; })) {
    text += fmt::format("; trained on sequences of {} tokens", first.train_length);
  }
  const auto shown_tokens = [](const RunSummary& run) { return show_count(run.tokens()); };
  if (std::isfinite(first.tokens()) && all_equal(runs, shown_tokens)) {
    text += fmt::format("; {} tokens{}", shown_tokens(first), one ? " in all" : " each");
  }
  std::vector<std::string> kinds;
  for (const RunSummary& run : runs) {
    if (!run.kind.empty() && std::find(kinds.begin(), kinds.end(), run.kind) == kinds.end()) kinds.push_back(run.kind);
  }
  if (kinds.empty()) return text + ".";
  return text + (kinds.size() == 1 ? ". Positions: " : ". What differs is how they see positions: ") + join_words(kinds) + ".";
}

std::vector<std::string> verdict(const std::vector<RunSummary>& runs) {
  std::vector<std::string> lines;
  perplexity_verdict(runs, lines);
  passkey_verdict(runs, lines);
  state_verdict(runs, lines);
  if (lines.empty()) lines.push_back("Trained to the end; there are no evaluation results yet.");
  return lines;
}

std::string summary_table(const std::vector<RunSummary>& runs) {
  std::vector<std::string> header = {"run", "position", "state", "tokens", "val loss"};
  std::vector<double> perplexities, passkeys;
  for (const double multiple : perplexity_multiples(runs)) {
    if (multiple == 1 || multiple == 2 || multiple == 8 || multiple == 16) perplexities.push_back(multiple);
  }
  for (const double multiple : passkey_multiples(runs)) {
    if (multiple == 1 || multiple == 2 || multiple == 8) passkeys.push_back(multiple);
  }
  const bool last_64 = std::any_of(runs.begin(), runs.end(), [](const RunSummary& run) {
    return std::any_of(run.lengths.begin(), run.lengths.end(),
                       [](const auto& result) { return !std::isnan(result.last_64_perplexity); });
  });
  for (const double multiple : perplexities) header.push_back(fmt::format("ppl {:.3g}x", multiple));
  for (const double multiple : passkeys) header.push_back(fmt::format("key {:.3g}x", multiple));
  header.push_back("tokens/s");
  header.push_back("time");
  TextTable table(header);
  for (const RunSummary& run : runs) {
    std::vector<std::string> row = {run.name, run.kind, run.state(), show_count(run.tokens()),
                                    show_loss(run.final_validation_loss())};
    for (const double multiple : perplexities) row.push_back(show_perplexity(last_targets(run, multiple, last_64)));
    for (const double multiple : passkeys) row.push_back(show_percent(run.passkey_accuracy(length_at(run, multiple))));
    row.push_back(show_integer(run.tokens_per_second()));
    row.push_back(show_duration(run.training_seconds()));
    table.add_row(std::move(row));
  }
  std::string text = table.str();
  if (!perplexities.empty()) {
    text += fmt::format("ppl: perplexity of the last {} at that multiple of the training length",
                        last_64 ? "64 targets" : "half of the targets");
    text += passkeys.empty() ? "\n" : "; key: passkey prompts answered exactly\n";
  }
  return text;
}

}  // namespace longwave
