// Which tokens are in which sample of which step. A pure function of (seed, global sample index): not of ranks, restarts or
// what was read before. Sample s of the run belongs to step s / batch.
//
// A source is cut into windows of `context` inputs that follow each other without gap or overlap; a window's last target is
// the next one's first input. An epoch visits every window once, in an order of its own, and begins its cuts at an offset
// of its own below `context`, so that over epochs tokens meet different beginnings.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/random.h"
#include "core/data/apportionment.h"
#include "core/data/passkey.h"
#include "core/data/token_source.h"

namespace longwave {

struct WeightedSource {
  const TokenSource* source = nullptr;
  double weight = 1;  // share of the samples
};

// One sample: context + 1 tokens as inputs and next-token targets.
struct SampleView {
  std::int32_t* tokens = nullptr;   // [context]
  std::int32_t* targets = nullptr;  // [context], negative where there is no loss
  float* weights = nullptr;         // [context]
};

class Sampler {
 public:
  // Throws data_error when a source is shorter than one sample, config_error when a passkey prompt does not fit into one.
  // `passkeys` may be null; else `passkey_fraction` of the samples are passkey prompts of training length.
  Sampler(std::vector<WeightedSource> sources, std::int64_t context, std::uint64_t seed, const PasskeyMaker* passkeys,
          double passkey_fraction);

  void sample(std::int64_t index, SampleView out) const;
  std::int64_t samples_per_epoch(std::size_t source) const;

 private:
  // Windows are counted so that every offset of an epoch leaves room for all of them.
  struct Windows {
    std::int64_t count;    // an epoch
    std::int64_t offsets;  // an epoch begins at one of [0, offsets)
    RandomKey key;
  };
  std::int64_t window_begin(std::size_t source, std::int64_t ordinal) const;

  std::vector<WeightedSource> sources_;
  std::int64_t context_;
  const PasskeyMaker* passkeys_;
  std::vector<Windows> windows_;
  RandomKey passkey_key_;
  Apportionment apportionment_;  // the sources, then the passkey prompts
};

}  // namespace longwave
