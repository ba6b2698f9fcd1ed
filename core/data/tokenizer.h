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
  virtual std::string decode(const std::vector<std::int32_t>& ids) const = 0;
  virtual const std::string& name() const = 0;
};

// "bytes": ids 0-255 are bytes, 256 ends a document, vocabulary 257. "none": null. Anything else is the path of a
// SentencePiece .model file; throws data_error when it cannot be read.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name);

}  // namespace longwave
