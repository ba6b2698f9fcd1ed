// Longwave's token file, `.lwtok`: ids with what is needed to trust them. All integers little-endian.
//
//   0   "LWTOKENS"
//   8   uint32 version, 1
//   12  uint32 bytes a token, 2 or 4
//   16  uint64 vocabulary: every id is below it
//   24  uint64 tokens
//   32  uint64 documents
//   40  uint64 block: bytes of ids under one checksum
//   48  uint64 fingerprint of the tokenizer, 0 when unknown
//   56  uint64 XXH3 of bytes 0-55
//   64  ids, padded with zeros to a multiple of 8 bytes
//       uint64 XXH3 of each block of ids (the last may be shorter)
//       uint64 end of each document, in tokens; the last is the number of tokens
//       uint64 XXH3 of the document ends
//
// Opening reads the header and the size only. A block's checksum and ids are checked when the block is first read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/data/id_array.h"
#include "core/data/token_source.h"

namespace longwave {

class TokenShard final : public TokenSource {
 public:
  // Throws data_error: foreign, another version, a damaged header, truncated, made with another tokenizer.
  TokenShard(MappedFile file, const Tokenizer* tokenizer, std::int64_t model_vocabulary);
  static bool recognises(const MappedFile& file);

  std::int64_t size() const override { return ids_.count; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  const std::string& name() const override { return file_.path(); }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const override;

  std::int64_t documents() const { return documents_; }
  // Where each document ends, in tokens, ascending. Throws data_error when the index is damaged.
  std::vector<std::int64_t> document_ends() const;

 private:
  void check_block(std::int64_t block) const;
  std::int64_t checksums_offset() const;

  MappedFile file_;
  IdArray ids_;
  std::int64_t vocabulary_ = 0, limit_ = 0, documents_ = 0, block_bytes_ = 0, blocks_ = 0;
  // One flag a block. Two threads may both check a block; neither can miss a fault.
  mutable std::unique_ptr<std::atomic<bool>[]> checked_;
};

// Writes a shard through a temporary file; nothing is under `path` before commit().
class TokenShardWriter {
 public:
  // Two bytes a token while the vocabulary allows it. `tokenizer` may be null.
  TokenShardWriter(const std::string& path, std::int64_t vocabulary, const Tokenizer* tokenizer);

  // Appends one document. Throws data_error on an id outside of the vocabulary.
  void append(const std::vector<std::int32_t>& document);
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return static_cast<std::int64_t>(document_ends_.size()); }

  // Completes the temporary file; append() may not follow.
  void finish();
  // True when the finished file equals the one under `path`, byte for byte.
  bool equals_existing() const;
  void commit();

 private:
  void write(const void* data, std::size_t bytes);
  void flush_block();

  std::unique_ptr<AtomicFile> output_;
  std::int64_t vocabulary_;
  std::uint64_t fingerprint_;
  int width_;
  std::vector<std::byte> block_;
  std::vector<std::uint64_t> checksums_, document_ends_;
  std::int64_t tokens_ = 0;
  std::uint64_t offset_;
};

}  // namespace longwave
