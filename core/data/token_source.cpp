#include "core/data/token_source.h"

#include <xxhash.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/data/id_array.h"
#include "core/data/raw_tokens.h"
#include "core/data/text_file.h"
#include "core/data/token_shard.h"

namespace longwave {
namespace {

// A text file, tokenised when it was opened, as one document.
class TokenizedText final : public TokenSource {
 public:
  TokenizedText(const std::string& path, const Tokenizer& tokenizer, std::int64_t model_vocabulary)
      : path_(path), vocabulary_(tokenizer.vocabulary()) {
    std::vector<std::int32_t> ids = tokenizer.encode(read_text_file(path));
    ids.push_back(tokenizer.end_of_document());
    if (vocabulary_ <= 65536) {
      narrow_.assign(ids.begin(), ids.end());
    } else {
      wide_ = std::move(ids);
    }
    const IdArray held = array();
    check_ids(held, id_limit(0, model_vocabulary), 0, held.count, path_, 0);
  }

  std::int64_t size() const override { return array().count; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  const std::string& name() const override { return path_; }

  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const override {
    check_range(begin, count, size(), path_);
    array().widen(begin, count, out);
  }

 private:
  IdArray array() const {
    if (narrow_.empty()) return {reinterpret_cast<const std::byte*>(wide_.data()), 4, static_cast<std::int64_t>(wide_.size())};
    return {reinterpret_cast<const std::byte*>(narrow_.data()), 2, static_cast<std::int64_t>(narrow_.size())};
  }

  std::string path_;
  std::int64_t vocabulary_;
  std::vector<std::uint16_t> narrow_;
  std::vector<std::int32_t> wide_;
};

// Several files one behind the other.
class ConcatenatedSource final : public TokenSource {
 public:
  ConcatenatedSource(std::string name, std::vector<std::unique_ptr<TokenSource>> parts)
      : name_(std::move(name)), parts_(std::move(parts)) {
    begins_.push_back(0);
    for (const auto& part : parts_) begins_.push_back(begins_.back() + part->size());
  }

  std::int64_t size() const override { return begins_.back(); }
  const std::string& name() const override { return name_; }

  std::int64_t vocabulary() const override {
    std::int64_t largest = 0;
    for (const auto& part : parts_) {
      if (part->vocabulary() == 0) return 0;
      largest = std::max(largest, part->vocabulary());
    }
    return largest;
  }

  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const override {
    check_range(begin, count, size(), name_);
    auto part = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), begin) - begins_.begin()) - 1;
    for (; count > 0; ++part) {
      const std::int64_t here = std::min(count, begins_[part + 1] - begin);
      parts_[part]->read(begin - begins_[part], here, out);
      begin += here;
      count -= here;
      out += here;
    }
  }

 private:
  std::string name_;
  std::vector<std::unique_ptr<TokenSource>> parts_;
  std::vector<std::int64_t> begins_;  // [parts + 1]
};

bool is_text_name(std::string_view path) { return path.ends_with(".txt") || path.ends_with(".gz") || path.ends_with(".md"); }

std::unique_ptr<TokenSource> open_file(const std::string& path, const Tokenizer* tokenizer, const SourceOptions& options) {
  MappedFile file(path);
  if (file.size() == 0) throw data_error("{}: the file is empty; leave it out or replace it", path);
  if (TokenShard::recognises(file)) return std::make_unique<TokenShard>(std::move(file), tokenizer, options.vocabulary);
  if (RawTokens::recognises_llmc(file)) return RawTokens::open_llmc(std::move(file), options.vocabulary);
  if (!options.dtype.empty() && !is_text_name(path)) {
    return RawTokens::open_headerless(std::move(file), options.dtype, options.vocabulary);
  }
  const std::string_view beginning(reinterpret_cast<const char*>(file.data()), std::min<std::size_t>(file.size(), 4096));
  if (!looks_like_text(beginning)) {
    throw data_error(
        "{}: neither text nor a token file this program knows (Longwave .lwtok, llm.c .bin); for headerless ids "
        "set data.dtype to uint16 or uint32",
        path);
  }
  if (!tokenizer)
    throw data_error("{}: text needs a tokenizer: set data.tokenizer to bytes or a SentencePiece .model file", path);
  return std::make_unique<TokenizedText>(path, *tokenizer, options.vocabulary);
}

}  // namespace

std::unique_ptr<TokenSource> open_token_source(const std::string& path, const Tokenizer* tokenizer,
                                               const SourceOptions& options) {
  std::vector<std::unique_ptr<TokenSource>> parts;
  for (const std::string& file : list_files(path)) parts.push_back(open_file(file, tokenizer, options));
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_unique<ConcatenatedSource>(path, std::move(parts));
}

std::uint64_t fingerprint_of(const TokenSource& source) {
  constexpr std::int64_t places = 16, length = 256;
  std::uint64_t hash = static_cast<std::uint64_t>(source.size());
  const std::int64_t count = std::min(length, source.size());
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::int64_t place = 0; place < places; ++place) {
    source.read((source.size() - count) * place / (places - 1), count, ids.data());
    hash = XXH3_64bits_withSeed(ids.data(), ids.size() * sizeof(std::int32_t), hash);
  }
  return hash;
}

}  // namespace longwave
