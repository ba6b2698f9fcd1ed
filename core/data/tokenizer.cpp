#include "core/data/tokenizer.h"

#include <xxhash.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"

namespace longwave {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  std::int64_t vocabulary() const override { return 257; }
  std::int32_t end_of_document() const override { return 256; }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<unsigned char>(text[i]);
    return ids;
  }

  std::string decode(const std::vector<std::int32_t>& ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (const std::int32_t id : ids) {
      if (id >= 0 && id < 256) text += static_cast<char>(id);
    }
    return text;
  }

  const std::string& name() const override { return name_; }
  std::uint64_t fingerprint() const override { return XXH3_64bits(name_.data(), name_.size()); }

 private:
  std::string name_ = "bytes";
};

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name) {
  if (name == "none") return nullptr;
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  if (!std::filesystem::is_regular_file(name)) {
    throw data_error("{}: no such tokenizer file; give 'bytes', 'none' or the path of a SentencePiece .model file", name);
  }
  return make_sentencepiece_tokenizer(read_file(name), name);
}

}  // namespace longwave
