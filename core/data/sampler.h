// Which tokens are in which sample of which step. A pure function of (seed, global sample index): not of ranks, restarts or
// what was read before. Sample s of the run belongs to step s / batch.
#pragma once

#include <cstdint>
#include <vector>

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
  // Throws data_error when a source is shorter than one sample. `passkeys` may be null; else `passkey_fraction` of the
  // samples are passkey prompts of training length.
  Sampler(std::vector<WeightedSource> sources, std::int64_t context, std::uint64_t seed, const PasskeyMaker* passkeys,
          double passkey_fraction);

  void sample(std::int64_t index, SampleView out) const;
  std::int64_t samples_per_epoch(std::size_t source) const;

 private:
  struct Part;
  std::vector<WeightedSource> sources_;
  std::int64_t context_;
  std::uint64_t seed_;
  const PasskeyMaker* passkeys_;
  double passkey_fraction_;
};

}  // namespace longwave
