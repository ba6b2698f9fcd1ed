#include "jobs/dataset.h"

#include <algorithm>

namespace longwave {

Dataset::Dataset(const DataConfig& config, std::int64_t configured_vocabulary)
    : tokenizer_(open_tokenizer(config.tokenizer)), vocabulary_(configured_vocabulary) {
  if (vocabulary_ == 0 && tokenizer_ != nullptr) vocabulary_ = tokenizer_->vocabulary();
  train_ = open(config.train, config.dtype);
  validation_ = open(config.validation, config.dtype);
  if (vocabulary_ == 0) {
    for (const std::vector<Source>* part : {&train_, &validation_}) {
      for (const Source& source : *part) vocabulary_ = std::max(vocabulary_, source.tokens->vocabulary());
    }
    if (vocabulary_ == 0) {
      throw config_error("model.vocabulary is needed: there is no tokenizer (data.tokenizer: none) and the token files state none");
    }
  }
  if (tokenizer_ != nullptr && vocabulary_ < tokenizer_->vocabulary()) {
    throw config_error("model.vocabulary: {} is less than the {} ids of tokenizer {}", vocabulary_, tokenizer_->vocabulary(),
                       tokenizer_->name());
  }
  passkeys_ = std::make_unique<PasskeyMaker>(tokenizer_.get(), vocabulary_);
}

std::vector<Dataset::Source> Dataset::open(const std::vector<DataSource>& sources, const std::string& dtype) const {
  std::vector<Source> opened;
  for (const DataSource& source : sources) {
    opened.push_back({open_token_source(source.path, tokenizer_.get(), {dtype, vocabulary_}), source.weight});
  }
  return opened;
}

std::int64_t Dataset::train_tokens() const {
  std::int64_t sum = 0;
  for (const Source& source : train_) sum += source.tokens->size();
  return sum;
}

Sampler Dataset::make_sampler(std::int64_t context, std::uint64_t seed, double passkey_fraction) const {
  std::vector<WeightedSource> sources;
  for (const Source& source : train_) sources.push_back({source.tokens.get(), source.weight});
  return Sampler(std::move(sources), context, seed, passkey_fraction > 0 ? passkeys_.get() : nullptr, passkey_fraction);
}

std::uint64_t Dataset::fingerprint() const {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;  // a product with it keeps the order of the sources in the hash
  std::uint64_t hash = tokenizer_ ? tokenizer_->fingerprint() : 0;
  for (const std::vector<Source>* part : {&train_, &validation_}) {
    for (const Source& source : *part) hash = hash * odd + fingerprint_of(*source.tokens);
  }
  return hash;
}

TokenStream Dataset::validation() const {
  std::vector<const TokenSource*> sources;
  for (const Source& source : validation_) sources.push_back(source.tokens.get());
  return TokenStream(std::move(sources));
}

}  // namespace longwave
