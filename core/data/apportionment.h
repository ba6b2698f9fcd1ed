// Which of several sources each sample of a run comes from, in given shares. Among any number of first samples a source has
// its share to within the number of sources, and how many it has had is a formula: no counter is kept, so any sample can be
// asked for, in any order, by any rank.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/random.h"

namespace longwave {

class Apportionment {
 public:
  // Weights >= 0, not all 0; a source of weight 0 is never chosen.
  Apportionment(const std::vector<double>& weights, const RandomKey& key);

  struct Choice {
    std::size_t source;
    std::int64_t ordinal;  // how many samples before this one came from the same source
  };
  Choice choose(std::int64_t index) const;

 private:
  // A fork takes its source for a share of the samples that reach it and hands the others on: of the first m,
  // floor(m share + phase) are taken (a Beatty sequence). share and phase are in units of 2^-64.
  struct Fork {
    std::size_t source;
    bool takes_all;
    std::uint64_t share, phase;
    std::int64_t taken(std::int64_t first) const;
  };
  std::vector<Fork> forks_;
};

}  // namespace longwave
