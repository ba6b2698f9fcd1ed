// Passkey prompts (Mohtashami and Jaggi, arXiv 2305.16300, in the form the FoPE paper evaluates): filler sentences, one
// sentence that states a five-digit key, filler, then the question. Text through a tokenizer, or plain ids without one.
//
//   ... Rain fell all day. The sky is blue. The pass key is #40961. The grass is green. What is it? The pass key is #40961
//
// Sentences are short, so that a model of bytes meets statement and question within a context of 256. Every digit is one
// token, in every prompt alike.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/data/tokenizer.h"

namespace longwave {

struct PasskeyPrompt {
  std::vector<std::int32_t> tokens;   // `length` ids; the true key stands at the answer positions
  std::vector<std::int64_t> answers;  // index in `tokens` of each token of the key, in order; predicted from the one before
  std::string key;                    // five digits, 00000 to 99999
};

// The parts of a prompt as ids.
struct PasskeySpelling {
  std::vector<std::vector<std::int32_t>> filler;  // sentences
  std::vector<std::int32_t> statement, stop;      // around the key where it is stated
  std::vector<std::int32_t> question;             // up to the key
  std::array<std::int32_t, 10> digits{};
};

class PasskeyMaker {
 public:
  static constexpr std::int64_t key_digits = 5;
  static constexpr float digit_weight = 8;  // in training samples: 5 digits among 250 bytes of filler else hardly count

  // `tokenizer` null: prompts of token ids below `vocabulary`.
  PasskeyMaker(const Tokenizer* tokenizer, std::int64_t vocabulary);

  // Why no prompt can be spelled with this tokenizer or vocabulary; empty when one can. Only a job that asks for prompts
  // has to mind.
  const std::string& obstacle() const { return obstacle_; }
  // The shortest prompt there is; shorter lengths have no passkey test. Without any prompt the largest integer.
  std::int64_t shortest() const;
  // A prompt of exactly `length` >= shortest() tokens, the key's sentence at `depth` of the filler (0 first, 1 last), to
  // within a sentence: what is left over stands, cut, at the start. A pure function of its arguments.
  PasskeyPrompt prompt(std::int64_t length, double depth, const RandomKey& key, std::uint64_t index) const;
  // A training sample of context + 1 tokens that asks one to three times and ends with the key; `weights` [context + 1] is
  // digit_weight on the digits of the answers, 1 elsewhere.
  void training_sample(std::int64_t context, const RandomKey& key, std::uint64_t index, std::int32_t* tokens,
                       float* weights) const;

 private:
  class Draft;
  PasskeySpelling spelling_;
  std::string obstacle_;
};

}  // namespace longwave
