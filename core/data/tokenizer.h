// Text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace longwave {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t vocabulary() const = 0;
  virtual std::int32_t end_of_document() const = 0;
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  // The text of `ids`; ids that stand for no text (the end of a document, ids out of range) give none.
  virtual std::string decode(const std::vector<std::int32_t>& ids) const = 0;
  virtual const std::string& name() const = 0;
  // Tells tokenizers apart in token files, wherever the model file lies: equal for equal models, never 0.
  virtual std::uint64_t fingerprint() const = 0;
};

// "bytes": ids 0-255 are bytes, 256 ends a document, vocabulary 257. "none": null. Anything else is the path of a
// SentencePiece .model file; throws data_error when it cannot be read.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name);

// The same from the bytes of a SentencePiece model; `name` is for messages.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model, const std::string& name);

// Trains a SentencePiece unigram model (Kudo, arXiv 1804.10959) with byte fallback, so that every text has a lossless
// encoding, and single digits. Returns the bytes of the .model file, which depend on `texts` and `vocabulary` only. At most
// `sample_bytes` of the text are looked at, spread evenly. Throws config_error when the text cannot carry that vocabulary.
std::string train_sentencepiece(const std::vector<std::string_view>& texts, std::int64_t vocabulary,
                                std::int64_t sample_bytes = std::int64_t{64} << 20);

}  // namespace longwave
