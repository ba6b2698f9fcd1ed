// The data of a job: tokenizer, training and validation sources, passkey prompts.
#pragma once

#include <memory>
#include <vector>

#include "core/data/passkey.h"
#include "core/data/sampler.h"
#include "core/data/token_source.h"
#include "core/data/tokenizer.h"
#include "core/eval/evaluation.h"
#include "jobs/config/config.h"

namespace longwave {

class Dataset {
 public:
  // Opens the tokenizer and every source. `config` needs no vocabulary yet: it is chosen from what was opened (the
  // tokenizer's, or the largest that a token file states). Throws data_error.
  explicit Dataset(const DataConfig& config, std::int64_t configured_vocabulary);

  std::int64_t vocabulary() const { return vocabulary_; }
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }  // null: token files alone
  std::int64_t train_tokens() const;

  // Ids at or above `vocabulary` are refused as they are read. Throws data_error when a source is shorter than a sample.
  Sampler make_sampler(std::int64_t context, std::uint64_t seed, double passkey_fraction) const;
  TokenStream validation() const;
  // A hash of the tokenizer and of samples of every source: equal where ranks have opened the same files. Throws data_error.
  std::uint64_t fingerprint() const;
  bool has_validation() const { return !validation_.empty(); }
  const PasskeyMaker& passkeys() const { return *passkeys_; }

 private:
  struct Source {
    std::unique_ptr<TokenSource> tokens;
    double weight = 1;
  };
  std::vector<Source> open(const std::vector<DataSource>& sources, const std::string& dtype) const;

  std::unique_ptr<Tokenizer> tokenizer_;
  std::int64_t vocabulary_ = 0;
  std::vector<Source> train_;
  std::vector<Source> validation_;
  std::unique_ptr<PasskeyMaker> passkeys_;
};

}  // namespace longwave
