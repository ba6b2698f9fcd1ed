// Runs a model over the chunks and prompts of an evaluation. Work is shared by index: rank r of n takes r, r + n, ...; all
// shards of a tensor group must pass the same share, since they compute one model together. Nothing here communicates
// beyond that: the caller adds `flat()` over the ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/data/passkey.h"
#include "core/data/token_source.h"
#include "core/eval/passkey.h"
#include "core/eval/perplexity.h"
#include "core/model/transformer.h"

namespace longwave {

struct EvaluationShare {
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  std::int64_t batch_tokens = 8192;  // sequences shorter than this are evaluated several at a time
};

// Called after every pass with the length it had, and this rank's sequences done and in all. May throw to stop.
using EvaluationProgress = std::function<void(std::int64_t length, std::int64_t done, std::int64_t total)>;

// Several sources as one stream, in order.
class TokenStream {
 public:
  explicit TokenStream(std::vector<const TokenSource*> sources) : sources_(std::move(sources)) {}
  std::int64_t size() const;  // tokens
  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const;

 private:
  std::vector<const TokenSource*> sources_;
};

// `sums` was made for stream.size() tokens.
void evaluate_perplexity(Transformer& model, const TokenStream& stream, const EvaluationShare& share, PerplexitySums& sums,
                         const EvaluationProgress& progress = {});
// `sums` was made for `maker`.
void evaluate_passkey(Transformer& model, const PasskeyMaker& maker, const EvaluationShare& share, PasskeySums& sums,
                      const EvaluationProgress& progress = {});

}  // namespace longwave
