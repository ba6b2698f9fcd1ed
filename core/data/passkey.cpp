#include "core/data/passkey.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace longwave {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr const char* filler_sentences[] = {
    " The grass is green.", " The sky is blue.",     " The sun is warm.",     " Rain fell all day.",  " Snow lay on the hill.",
    " The wind turned.",    " A dog barked.",        " The road was long.",   " Birds flew south.",   " She closed the door.",
    " He read a letter.",   " The lamp burned low.", " We walked on.",        " The tea was hot.",    " Nobody spoke.",
    " The boat was late.",  " They ate bread.",      " A clock struck.",      " The river ran fast.", " Night came early.",
    " The room was quiet.", " Leaves fell.",         " The horse was tired.", " A bell rang.",
};
constexpr const char* statement_text = " The pass key is #";
constexpr const char* question_text = " What is it? The pass key is #";

// Ids of `text` as they follow `before`: a tokenizer may spell a text otherwise at its beginning than in its midst. Empty
// when it joins the two.
Ids continuation(const Tokenizer& tokenizer, const std::string& before, const std::string& text) {
  const Ids head = tokenizer.encode(before);
  const Ids whole = tokenizer.encode(before + text);
  if (whole.size() <= head.size() || !std::equal(head.begin(), head.end(), whole.begin())) return {};
  return {whole.begin() + static_cast<std::ptrdiff_t>(head.size()), whole.end()};
}

// True when the parts read as meant. Some tokenizers drop the first space of a text.
bool reads_back(const PasskeySpelling& spelling, const Tokenizer& tokenizer) {
  Ids example = spelling.statement;
  example.insert(example.end(), spelling.digits.begin(), spelling.digits.end());
  example.insert(example.end(), spelling.stop.begin(), spelling.stop.end());
  for (const Ids& sentence : spelling.filler) {
    if (sentence.empty()) return false;
    example.insert(example.end(), sentence.begin(), sentence.end());
  }
  example.insert(example.end(), spelling.question.begin(), spelling.question.end());
  std::string expected = std::string(statement_text + 1) + "0123456789.";
  for (const char* sentence : filler_sentences) expected += sentence;
  return tokenizer.decode(example).ends_with(expected + question_text);
}

// False when the tokenizer cannot spell a prompt with a token for each digit.
bool spell(const Tokenizer& tokenizer, PasskeySpelling& spelling) {
  for (const char* sentence : filler_sentences) spelling.filler.push_back(continuation(tokenizer, ".", sentence));
  spelling.statement = continuation(tokenizer, ".", statement_text);
  spelling.question = continuation(tokenizer, ".", question_text);
  spelling.stop = continuation(tokenizer, "key", ".");
  for (std::size_t digit = 0; digit < 10; ++digit) {
    const Ids ids = continuation(tokenizer, "#", std::to_string(digit));
    if (ids.size() != 1) return false;
    spelling.digits[digit] = ids[0];
  }
  return reads_back(spelling, tokenizer);
}

constexpr std::int64_t language_size = 64;

// A language of 64 ids spread over the vocabulary: 10 digits, 5 marks, the rest words of fixed sentences.
PasskeySpelling spell_in_ids(std::int64_t vocabulary) {
  const auto id = [vocabulary](std::int64_t word) { return static_cast<std::int32_t>(word * vocabulary / language_size); };
  PasskeySpelling spelling;
  for (std::size_t digit = 0; digit < 10; ++digit) spelling.digits[digit] = id(static_cast<std::int64_t>(digit));
  spelling.statement = {id(10), id(11), id(12)};
  spelling.question = {id(13), id(10), id(11), id(12)};
  spelling.stop = {id(14)};
  const RandomKey key(1, "passkey-language");
  for (std::uint64_t sentence = 0; sentence < std::size(filler_sentences); ++sentence) {
    Ids ids;
    for (std::uint64_t word = 0; word < 3 + sentence % 4; ++word) {
      ids.push_back(id(15 + static_cast<std::int64_t>(key.below(language_size - 15, sentence, word))));
    }
    ids.push_back(spelling.stop[0]);
    spelling.filler.push_back(ids);
  }
  return spelling;
}

std::int64_t count(const Ids& ids) { return static_cast<std::int64_t>(ids.size()); }

void append(Ids& to, const Ids& ids) { to.insert(to.end(), ids.begin(), ids.end()); }

}  // namespace

// One prompt in the making. Every draw has a lane of its own, so the text is a function of (key, index).
class PasskeyMaker::Draft {
 public:
  Draft(const PasskeySpelling& spelling, const RandomKey& key, std::uint64_t index)
      : spelling_(spelling), key_(key), index_(index) {
    for (std::int64_t i = 0; i < key_digits; ++i) passkey_ += static_cast<char>('0' + below(10));
  }

  std::uint64_t below(std::uint64_t bound) { return key_.below(bound, index_, lane_++); }
  double uniform() { return key_.uniform(index_, lane_++); }
  const std::string& passkey() const { return passkey_; }

  void state() {
    append(body_, spelling_.statement);
    spell_key();
    append(body_, spelling_.stop);
  }

  void ask() {
    append(body_, spelling_.question);
    for (std::int64_t i = 0; i < key_digits; ++i) answers_.push_back(count(body_) + i);
    spell_key();
  }

  void stop() { append(body_, spelling_.stop); }

  // Whole sentences, at most `tokens` of them, until the next does not fit; returns how many tokens.
  std::int64_t fill(std::int64_t tokens) {
    std::int64_t filled = 0;
    for (;;) {
      const Ids& sentence = draw_sentence();
      if (filled + count(sentence) > tokens) return filled;
      append(body_, sentence);
      filled += count(sentence);
    }
  }

  // The finished text: filler before the body, cut at its start, makes `length` tokens. Moves the answers along.
  Ids finish(std::int64_t length) {
    const std::int64_t missing = length - count(body_);
    Ids text;
    while (count(text) < missing) append(text, draw_sentence());
    text.erase(text.begin(), text.end() - missing);
    append(text, body_);
    for (std::int64_t& answer : answers_) answer += missing;
    return text;
  }

  const std::vector<std::int64_t>& answers() const { return answers_; }

 private:
  const Ids& draw_sentence() { return spelling_.filler[below(spelling_.filler.size())]; }

  void spell_key() {
    for (const char digit : passkey_) body_.push_back(spelling_.digits[static_cast<std::size_t>(digit - '0')]);
  }

  const PasskeySpelling& spelling_;
  const RandomKey& key_;
  std::uint64_t index_, lane_ = 0;
  std::string passkey_;
  Ids body_;                           // from the statement (or the filler behind it) on
  std::vector<std::int64_t> answers_;  // in body_, until finish()
};

PasskeyMaker::PasskeyMaker(const Tokenizer* tokenizer, std::int64_t vocabulary) {
  if (tokenizer) {
    if (!spell(*tokenizer, spelling_)) obstacle_ = fmt::format("tokenizer {} has no token for each digit", tokenizer->name());
  } else if (vocabulary < language_size) {
    obstacle_ = fmt::format("a passkey of ids takes a vocabulary of {}, this one has {}", language_size, vocabulary);
  } else {
    spelling_ = spell_in_ids(vocabulary);
  }
}

std::int64_t PasskeyMaker::shortest() const {
  if (!obstacle_.empty()) return std::numeric_limits<std::int64_t>::max();
  return count(spelling_.statement) + count(spelling_.stop) + count(spelling_.question) + 2 * key_digits;
}

PasskeyPrompt PasskeyMaker::prompt(std::int64_t length, double depth, const RandomKey& key, std::uint64_t index) const {
  LONGWAVE_CHECK(length >= shortest() && depth >= 0 && depth <= 1, "a passkey prompt of {} tokens at depth {}", length, depth);
  Draft draft(spelling_, key, index);
  draft.state();
  draft.fill(std::llround(static_cast<double>(length - shortest()) * (1 - depth)));
  draft.ask();
  PasskeyPrompt prompt;
  prompt.tokens = draft.finish(length);
  prompt.answers = draft.answers();
  prompt.key = draft.passkey();
  return prompt;
}

void PasskeyMaker::training_sample(std::int64_t context, const RandomKey& key, std::uint64_t index, std::int32_t* tokens,
                                   float* weights) const {
  const std::int64_t length = context + 1;
  LONGWAVE_CHECK(length >= shortest(), "a passkey sample of {} tokens", length);
  Draft draft(spelling_, key, index);
  const std::int64_t another = count(spelling_.stop) + count(spelling_.question) + key_digits;
  const std::int64_t more = std::min(static_cast<std::int64_t>(draft.below(3)), (length - shortest()) / another);
  std::int64_t filler = length - shortest() - more * another;
  draft.state();
  for (std::int64_t asked = 0; asked <= more; ++asked) {
    if (asked > 0) draft.stop();
    filler -= draft.fill(static_cast<std::int64_t>(draft.uniform() * static_cast<double>(filler)));
    draft.ask();
  }
  const Ids text = draft.finish(length);
  std::copy(text.begin(), text.end(), tokens);
  std::fill_n(weights, length, 1.0f);
  for (const std::int64_t answer : draft.answers()) weights[answer] = digit_weight;
}

}  // namespace longwave
