#include "core/data/apportionment.h"

#include <cmath>

#include "core/base/error.h"

namespace longwave {

Apportionment::Apportionment(const std::vector<double>& weights, const RandomKey& key) {
  double remaining = 0;
  for (const double weight : weights) {
    LONGWAVE_CHECK(std::isfinite(weight) && weight >= 0, "a weight of {}", weight);
    remaining += weight;
  }
  LONGWAVE_CHECK(remaining > 0, "no source has a weight");
  for (std::size_t source = 0; source < weights.size(); ++source) {
    if (weights[source] == 0) continue;
    const double share = std::ldexp(weights[source] / remaining, 64);
    const bool takes_all = share >= 0x1p64;
    forks_.push_back({source, takes_all, takes_all ? 0 : static_cast<std::uint64_t>(share), key.bits(source)});
    remaining -= weights[source];
  }
  forks_.back().takes_all = true;  // whatever rounding left of `remaining`
}

std::int64_t Apportionment::Fork::taken(std::int64_t first) const {
  __extension__ using uint128 = unsigned __int128;
  return static_cast<std::int64_t>((static_cast<uint128>(share) * static_cast<uint128>(first) + phase) >> 64);
}

Apportionment::Choice Apportionment::choose(std::int64_t index) const {
  for (const Fork& fork : forks_) {
    if (fork.takes_all) return {fork.source, index};
    const std::int64_t before = fork.taken(index);
    if (fork.taken(index + 1) > before) return {fork.source, before};
    index -= before;
  }
  throw Error(ExitCode::bug, "internal error: no fork took the sample");
}

}  // namespace longwave
