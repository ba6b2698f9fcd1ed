// Passkey prompts (Mohtashami and Jaggi, arXiv 2305.16300, in the form the FoPE paper evaluates): filler sentences, one
// sentence that states a five-digit key, filler, then the question. Text through a tokenizer, or plain ids without one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/data/tokenizer.h"

namespace longwave {

struct PasskeyPrompt {
  std::vector<std::int32_t> tokens;   // `length` ids; the true key stands at the answer positions
  std::vector<std::int64_t> answers;  // index in `tokens` of each token of the key, in order; predicted from the one before
  std::string key;                    // five digits
};

class PasskeyMaker {
 public:
  // `tokenizer` null: prompts of token ids below `vocabulary`.
  PasskeyMaker(const Tokenizer* tokenizer, std::int64_t vocabulary);

  // The shortest prompt there is; shorter lengths have no passkey test.
  std::int64_t shortest() const;
  // A prompt of exactly `length` tokens, the key's sentence at `depth` of the filler (0 first, 1 last). A pure function of
  // its arguments.
  PasskeyPrompt prompt(std::int64_t length, double depth, const RandomKey& key, std::uint64_t index) const;
  // A training sample of context + 1 tokens that asks one to three times; `weights` [context + 1] is higher on the digits.
  void training_sample(std::int64_t context, const RandomKey& key, std::uint64_t index, std::int32_t* tokens,
                       float* weights) const;

 private:
  const Tokenizer* tokenizer_;
  std::int64_t vocabulary_;
};

}  // namespace longwave
