// A stream of documents as token ids, whatever file holds them: our shards, llm.c .bin, raw uint16/uint32, or text that is
// tokenised when it is opened. Offsets and counts are 64-bit throughout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/data/tokenizer.h"

namespace longwave {

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::int64_t size() const = 0;        // tokens
  virtual std::int64_t vocabulary() const = 0;  // ids are below this, 0: the file does not say
  virtual const std::string& name() const = 0;  // for messages
  // ids [begin, begin + count) to `out`. Throws data_error naming file and offset when a checksum or an id is wrong.
  virtual void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const = 0;
};

struct SourceOptions {
  std::string dtype;            // raw files: "uint16" or "uint32"
  std::int64_t vocabulary = 0;  // ids at or above this are refused as they are read
};

// `path`: a file, a folder or a glob; a text file is one document, ended by the tokenizer's end-of-document id. Files are
// taken in byte order of their names. `tokenizer` may be null when the path holds token files.
// Throws data_error: nothing matches, empty, foreign, truncated (all found at opening, in O(1) a file).
std::unique_ptr<TokenSource> open_token_source(const std::string& path, const Tokenizer* tokenizer, const SourceOptions& options);

// A hash of the size and of 4096 ids in sixteen places: tells one file from another without reading it whole. Throws as read().
std::uint64_t fingerprint_of(const TokenSource& source);

}  // namespace longwave
