#include "core/eval/evaluation.h"

#include <algorithm>

#include "core/base/error.h"

namespace longwave {
namespace {

// One rank's sequences of one length, as batches for the model.
class Batches {
 public:
  // `total` sequences over all ranks; sequence i of the world is the own one when i % ranks == rank.
  Batches(std::int64_t length, std::int64_t total, const EvaluationShare& share) : length_(length), share_(share) {
    LONGWAVE_CHECK(0 <= share.rank && share.rank < share.ranks && share.batch_tokens > 0);
    own_ = share.rank < total ? (total - share.rank - 1) / share.ranks + 1 : 0;
    batch_ = std::clamp<std::int64_t>(share.batch_tokens / length, 1, std::max<std::int64_t>(own_, 1));
    const auto elements = static_cast<std::size_t>(batch_ * length);
    tokens.resize(elements);
    targets.resize(elements);
    losses.resize(elements);
    argmax.resize(elements);
  }

  // fill(index, row) writes the tokens of sequence `index` to `row`, take(index, row offset) uses what the model said.
  template <class Fill, class Take>
  void run(Transformer& model, bool with_argmax, Fill fill, Take take, const EvaluationProgress& progress) {
    if (own_ == 0) return;
    model.prepare_evaluation(batch_, length_);
    for (std::int64_t first = 0; first < own_; first += batch_) {
      const std::int64_t count = std::min(batch_, own_ - first);
      for (std::int64_t b = 0; b < count; ++b) {
        std::int32_t* row = tokens.data() + b * length_;
        fill(index(first + b), row);
        std::copy(row + 1, row + length_, targets.data() + b * length_);
        targets[static_cast<std::size_t>((b + 1) * length_ - 1)] = -1;  // nothing follows the last token
      }
      model.evaluate(tokens.data(), targets.data(), count, length_, losses.data(), with_argmax ? argmax.data() : nullptr);
      for (std::int64_t b = 0; b < count; ++b) take(index(first + b), b * length_);
      if (progress) progress(length_, first + count, own_);
    }
  }

  std::vector<std::int32_t> tokens, targets;  // [batch, length]
  std::vector<float> losses;
  std::vector<std::int32_t> argmax;

 private:
  std::int64_t index(std::int64_t own) const { return share_.rank + own * share_.ranks; }

  std::int64_t length_;
  EvaluationShare share_;
  std::int64_t own_ = 0;
  std::int64_t batch_ = 0;
};

}  // namespace

std::int64_t TokenStream::size() const {
  std::int64_t size = 0;
  for (const TokenSource* source : sources_) size += source->size();
  return size;
}

void TokenStream::read(std::int64_t begin, std::int64_t count, std::int32_t* out) const {
  for (const TokenSource* source : sources_) {
    if (count == 0) return;
    const std::int64_t here = std::clamp<std::int64_t>(source->size() - begin, 0, count);
    if (here > 0) source->read(begin, here, out);
    begin = std::max<std::int64_t>(0, begin - source->size());
    out += here;
    count -= here;
  }
  LONGWAVE_CHECK(count == 0, "{} tokens past the end of the stream", count);
}

void evaluate_perplexity(Transformer& model, const TokenStream& stream, const EvaluationShare& share, PerplexitySums& sums,
                         const EvaluationProgress& progress) {
  for (std::size_t index = 0; index < sums.lengths().size(); ++index) {
    const std::int64_t length = sums.lengths()[index].length;
    Batches batches(length, sums.lengths()[index].chunks, share);
    const auto fill = [&](std::int64_t chunk, std::int32_t* row) { stream.read(chunk * length, length, row); };
    const auto take = [&](std::int64_t chunk, std::int64_t row) { sums.add_chunk(index, chunk, batches.losses.data() + row); };
    batches.run(model, false, fill, take, progress);
  }
}

void evaluate_passkey(Transformer& model, const PasskeyMaker& maker, const EvaluationShare& share, PasskeySums& sums,
                      const EvaluationProgress& progress) {
  // Cells of one length stand behind each other: their prompts make common batches.
  const std::vector<PasskeySums::Cell>& cells = sums.cells();
  for (std::size_t begin = 0; begin < cells.size();) {
    std::size_t end = begin;
    while (end < cells.size() && cells[end].length == cells[begin].length) ++end;
    const std::int64_t length = cells[begin].length;
    const auto cell_of = [&](std::int64_t prompt) { return begin + static_cast<std::size_t>(prompt / sums.trials()); };
    const auto make = [&](std::int64_t prompt) {
      const PasskeySums::Cell& cell = cells[cell_of(prompt)];
      return maker.prompt(length, cell.depth, cell.key, static_cast<std::uint64_t>(prompt % sums.trials()));
    };
    Batches batches(length, static_cast<std::int64_t>(end - begin) * sums.trials(), share);
    const auto fill = [&](std::int64_t prompt, std::int32_t* row) {
      const PasskeyPrompt made = make(prompt);
      LONGWAVE_CHECK(static_cast<std::int64_t>(made.tokens.size()) == length);
      std::copy(made.tokens.begin(), made.tokens.end(), row);
    };
    const auto take = [&](std::int64_t prompt, std::int64_t row) {
      sums.add_prompt(cell_of(prompt), make(prompt), batches.argmax.data() + row);
    };
    batches.run(model, true, fill, take, progress);
    begin = end;
  }
}

}  // namespace longwave
