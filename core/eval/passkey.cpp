#include "core/eval/passkey.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace longwave {
namespace {

constexpr std::size_t cell_stride = 4;  // prompts, whole keys right, tokens right, tokens

}  // namespace

Interval wilson_interval(std::int64_t successes, std::int64_t trials) {
  if (trials == 0) return {};
  constexpr double z = 1.959963984540054;  // two-sided 95 %
  const auto n = static_cast<double>(trials);
  const double share = static_cast<double>(successes) / n;
  const double centre = (share + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  // At 0 and at 1 the bound is exact; rounding must not move it.
  return {successes == 0 ? 0 : std::max(0.0, centre - half), successes == trials ? 1 : std::min(1.0, centre + half)};
}

PasskeySums::PasskeySums(const PasskeyOptions& options, const PasskeyMaker& maker) : trials_(options.trials) {
  if (trials_ == 0) return;
  if (!maker.obstacle().empty()) {
    notes_.push_back(fmt::format("passkey is left out: {}", maker.obstacle()));
    return;
  }
  for (std::int64_t length : options.lengths) {
    if (length < maker.shortest()) {
      notes_.push_back(
          fmt::format("passkey at length {} is left out: the shortest prompt has {} tokens", length, maker.shortest()));
      continue;
    }
    for (double depth : options.depths) {
      cells_.push_back({length, depth, RandomKey(options.seed, "passkey", fmt::format("evaluate.{}.{}", length, depth))});
    }
  }
  flat_.assign(cells_.size() * cell_stride, 0.0);
}

void PasskeySums::add_prompt(std::size_t cell, const PasskeyPrompt& prompt, const std::int32_t* argmax) {
  LONGWAVE_CHECK(cell < cells_.size() && !prompt.answers.empty());
  std::int64_t right = 0;
  for (std::int64_t position : prompt.answers) right += argmax[position - 1] == prompt.tokens[static_cast<std::size_t>(position)];
  const auto tokens = static_cast<std::int64_t>(prompt.answers.size());
  double* sums = flat_.data() + cell * cell_stride;
  sums[0] += 1;
  sums[1] += right == tokens ? 1 : 0;
  sums[2] += static_cast<double>(right);
  sums[3] += static_cast<double>(tokens);
}

std::vector<PasskeyResult> PasskeySums::results() const {
  std::vector<PasskeyResult> results;
  for (std::size_t cell = 0; cell < cells_.size(); ++cell) {
    const double* sums = flat_.data() + cell * cell_stride;
    const Cell& at = cells_[cell];
    LONGWAVE_CHECK(sums[0] == static_cast<double>(trials_), "{} prompts of {} were counted at length {}, depth {}", sums[0],
                   trials_, at.length, at.depth);
    const auto correct = static_cast<std::int64_t>(sums[1]);
    results.push_back({at.length, at.depth, correct, trials_, wilson_interval(correct, trials_), sums[2] / sums[3]});
  }
  return results;
}

std::string passkey_json(const std::vector<PasskeyResult>& results) {
  nlohmann::ordered_json cells = nlohmann::ordered_json::array();
  for (const PasskeyResult& result : results) {
    cells.push_back({{"length", result.length},
                     {"depth", result.depth},
                     {"correct", result.correct},
                     {"trials", result.trials},
                     {"low", result.interval.low},
                     {"high", result.interval.high},
                     {"digits", result.digits}});
  }
  const nlohmann::ordered_json file = {{"cells", std::move(cells)}};
  return file.dump(2) + "\n";
}

std::string passkey_csv(const std::vector<PasskeyResult>& results) {
  std::string text = "length,depth,correct,trials,low,high,digits\n";
  for (const PasskeyResult& result : results) {
    text += fmt::format("{},{},{},{},{},{},{}\n", result.length, result.depth, result.correct, result.trials,
                        result.interval.low, result.interval.high, result.digits);
  }
  return text;
}

}  // namespace longwave
