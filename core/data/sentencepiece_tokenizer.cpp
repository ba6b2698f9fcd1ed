#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#include <xxhash.h>

#include <algorithm>

#include "core/base/divide.h"
#include "core/base/error.h"
#include "core/data/tokenizer.h"

namespace longwave {
namespace {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(const std::string& model, std::string name)
      : name_(std::move(name)), fingerprint_(std::max<std::uint64_t>(1, XXH3_64bits(model.data(), model.size()))) {
    if (model.empty() || !processor_.LoadFromSerializedProto(model).ok()) {
      throw data_error("{}: not a SentencePiece model, or a damaged one; make one with `longwave prepare --train-tokenizer N`",
                       name_);
    }
    if (processor_.eos_id() < 0) {
      throw data_error("{}: this model has no end-of-sentence piece (</s>), which has to end a document", name_);
    }
  }

  std::int64_t vocabulary() const override { return processor_.GetPieceSize(); }
  std::int32_t end_of_document() const override { return processor_.eos_id(); }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<int> ids;
    const auto status = processor_.Encode(text, &ids);
    LONGWAVE_CHECK(status.ok(), "{}: {}", name_, status.ToString());
    return ids;
  }

  std::string decode(const std::vector<std::int32_t>& ids) const override {
    std::vector<int> pieces;
    pieces.reserve(ids.size());
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(pieces),
                 [this](std::int32_t id) { return id >= 0 && id < processor_.GetPieceSize() && !processor_.IsControl(id); });
    std::string text;
    const auto status = processor_.Decode(pieces, &text);
    LONGWAVE_CHECK(status.ok(), "{}: {}", name_, status.ToString());
    return text;
  }

  const std::string& name() const override { return name_; }
  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  std::string name_;
  std::uint64_t fingerprint_;
  sentencepiece::SentencePieceProcessor processor_;
};

// Lines of the texts as the trainer takes them: without their newline (it is spelled by byte fallback), cut where the
// trainer would drop them for their length, and every `stride`-th only.
class LineIterator final : public sentencepiece::SentenceIterator {
 public:
  LineIterator(const std::vector<std::string_view>& texts, std::int64_t stride) : texts_(texts), stride_(stride) { Next(); }

  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

  void Next() override {
    do {
      do {
        if (!take_line()) {
          done_ = true;
          return;
        }
      } while (line_.empty());
    } while (count_++ % stride_ != 0);
  }

 private:
  static constexpr std::size_t longest_line = 4000;  // the trainer drops sentences above 4192 bytes

  bool take_line() {
    while (text_ < texts_.size() && offset_ >= texts_[text_].size()) {
      ++text_;
      offset_ = 0;
    }
    if (text_ >= texts_.size()) return false;
    const std::string_view rest = texts_[text_].substr(offset_);
    std::size_t length = rest.substr(0, longest_line).find('\n');
    const bool whole = length != std::string_view::npos;
    if (!whole) {
      length = std::min(rest.size(), longest_line);
      if (length < rest.size()) {
        const std::size_t space = rest.substr(0, length).rfind(' ');  // never inside a word or a UTF-8 sequence
        if (space != std::string_view::npos && space > 0) length = space;
      }
    }
    line_.assign(rest.substr(0, length));
    offset_ += length + (whole ? 1 : 0);
    return true;
  }

  const std::vector<std::string_view>& texts_;
  std::int64_t stride_;
  std::int64_t count_ = 0;
  std::size_t text_ = 0, offset_ = 0;
  std::string line_;
  bool done_ = false;
};

// The trainer reports a vocabulary that is too large as a failed check with the largest possible one behind "<=".
std::string explain(const std::string& trainer_message) {
  const std::size_t bound = trainer_message.rfind("<= ");
  if (bound == std::string::npos) return "the tokenizer cannot be trained: " + trainer_message;
  const std::string rest = trainer_message.substr(bound + 3);
  return "this text carries at most " + rest.substr(0, rest.find_first_not_of("0123456789")) +
         " pieces; take fewer, or more text";
}

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model, const std::string& name) {
  return std::make_unique<SentencePieceTokenizer>(model, name);
}

std::string train_sentencepiece(const std::vector<std::string_view>& texts, std::int64_t vocabulary, std::int64_t sample_bytes) {
  constexpr std::int64_t smallest = 300;  // 256 bytes, three control pieces and a few letters
  if (vocabulary < smallest || vocabulary > 1'000'000) {
    throw config_error("--train-tokenizer {}: a vocabulary is {} to 1000000 pieces", vocabulary, smallest);
  }
  std::int64_t bytes = 0;
  for (const std::string_view text : texts) bytes += static_cast<std::int64_t>(text.size());
  LineIterator lines(texts, divide_up(bytes, std::max<std::int64_t>(1, sample_bytes)));
  std::string model;
  // Identity normalisation and no dummy prefix: decoding gives the text back byte for byte, and an encoding does not
  // depend on where a text was cut.
  const auto status = sentencepiece::SentencePieceTrainer::Train({{"model_type", "unigram"},
                                                                  {"vocab_size", std::to_string(vocabulary)},
                                                                  {"byte_fallback", "true"},
                                                                  {"split_digits", "true"},
                                                                  {"normalization_rule_name", "identity"},
                                                                  {"remove_extra_whitespaces", "false"},
                                                                  {"add_dummy_prefix", "false"},
                                                                  {"character_coverage", "0.9995"},
                                                                  {"minloglevel", "2"},
                                                                  {"num_threads", "2"}},
                                                                 &lines, &model);
  if (!status.ok()) throw config_error("--train-tokenizer {}: {}", vocabulary, explain(status.ToString()));
  return model;
}

}  // namespace longwave
