#include "core/data/sampler.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "core/data/permutation.h"

namespace longwave {
namespace {

std::vector<double> shares(const std::vector<WeightedSource>& sources, double passkey_fraction) {
  double sum = 0;
  for (const WeightedSource& source : sources) sum += source.weight;
  if (!(sum > 0)) throw config_error("data.train: the weights of the sources add up to {}; one must be above 0", sum);
  std::vector<double> weights;
  for (const WeightedSource& source : sources) weights.push_back(source.weight / sum * (1 - passkey_fraction));
  weights.push_back(passkey_fraction);
  return weights;
}

}  // namespace

Sampler::Sampler(std::vector<WeightedSource> sources, std::int64_t context, std::uint64_t seed, const PasskeyMaker* passkeys,
                 double passkey_fraction)
    : sources_(std::move(sources)),
      context_(context),
      passkeys_(passkeys),
      passkey_key_(seed, "passkey-training"),
      apportionment_(shares(sources_, passkeys ? passkey_fraction : 0), RandomKey(seed, "sources")) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const TokenSource& source = *sources_[i].source;
    const std::int64_t whole = (source.size() - 1) / context;
    if (whole < 1) {
      throw data_error("{}: {} tokens are fewer than one sample of model.context + 1 = {}; give more text or a shorter context",
                       source.name(), source.size(), context + 1);
    }
    // With one window less than fit, every offset below context leaves room; a source of a single window moves in its slack.
    const std::int64_t count = std::max<std::int64_t>(1, whole - 1);
    const std::int64_t offsets = std::min(context, source.size() - count * context);
    windows_.push_back({count, offsets, RandomKey(seed, "order", "source " + std::to_string(i))});
  }
  if (!passkeys || passkey_fraction <= 0) return;
  if (!passkeys->obstacle().empty()) {
    throw config_error("evaluate.passkey.train_fraction: {}; set it to 0", passkeys->obstacle());
  }
  if (passkeys->shortest() > context + 1) {
    throw config_error(
        "evaluate.passkey.train_fraction: the shortest passkey prompt has {} tokens, a sample {}; set it to 0 or "
        "take a longer model.context",
        passkeys->shortest(), context + 1);
  }
}

std::int64_t Sampler::samples_per_epoch(std::size_t source) const { return windows_.at(source).count; }

std::int64_t Sampler::window_begin(std::size_t source, std::int64_t ordinal) const {
  const Windows& windows = windows_[source];
  const auto epoch = static_cast<std::uint64_t>(ordinal / windows.count);
  const std::int64_t window = Permutation(windows.key, windows.count, epoch)(ordinal % windows.count);
  constexpr std::uint64_t offset_lane = ~std::uint64_t{0};  // apart from the lanes of the permutation
  const auto offset = windows.key.below(static_cast<std::uint64_t>(windows.offsets), epoch, offset_lane);
  return static_cast<std::int64_t>(offset) + window * context_;
}

void Sampler::sample(std::int64_t index, SampleView out) const {
  const Apportionment::Choice choice = apportionment_.choose(index);
  const auto context = static_cast<std::size_t>(context_);
  if (choice.source < sources_.size()) {
    const TokenSource& source = *sources_[choice.source].source;
    const std::int64_t begin = window_begin(choice.source, choice.ordinal);
    source.read(begin, context_, out.tokens);
    source.read(begin + 1, context_, out.targets);
    std::fill_n(out.weights, context, 1.0f);
    return;
  }
  std::vector<std::int32_t> tokens(context + 1);
  std::vector<float> weights(context + 1);
  passkeys_->training_sample(context_, passkey_key_, static_cast<std::uint64_t>(choice.ordinal), tokens.data(), weights.data());
  std::copy_n(tokens.begin(), context, out.tokens);
  std::copy_n(tokens.begin() + 1, context, out.targets);
  std::copy_n(weights.begin() + 1, context, out.weights);
}

}  // namespace longwave
