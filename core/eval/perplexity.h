// Perplexity by length, after the protocol of the FoPE paper (Hua et al., arXiv 2412.17739, section 5.1): the validation
// stream is cut into non-overlapping chunks of T tokens, the remainder is dropped, every chunk is read with teacher forcing;
// the mean over the T - 1 targets of a chunk, the mean over chunks, exp. That averages over all positions, so a model that
// fails late still looks well; hence also the mean over the last T/2 targets, over the last 64, and the loss by position.
//
// Sums are kept chunk by chunk and added in the order of the chunks when results are asked for, so that they do not depend
// on how many ranks shared the work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longwave {

struct PerplexityOptions {
  std::vector<std::int64_t> lengths;   // T, in tokens
  std::int64_t tokens = 131072;        // of the start of the stream, at most, for every length
  std::int64_t train_length = 0;       // buckets of positions have an edge there
  std::int64_t position_buckets = 64;  // at most; edges are spaced evenly in the logarithm of the position
};

struct PositionBucket {
  std::int64_t begin = 0;  // positions [begin, end) of the predicted token in its chunk; the first target is at 1
  std::int64_t end = 0;
  double loss = 0;         // mean, nats
};

struct PerplexityResult {
  std::int64_t length = 0;
  std::int64_t chunks = 0;
  std::int64_t targets = 0;        // chunks * (length - 1)
  double perplexity = 0;
  double tail_perplexity = 0;      // over the last length/2 targets of each chunk
  double last_64_perplexity = 0;   // over the last min(64, length - 1) targets of each chunk
  std::vector<PositionBucket> loss_by_position;
};

class PerplexitySums {
 public:
  // A length without a whole chunk in `stream_tokens` tokens, or without a target, is left out with a note.
  PerplexitySums(const PerplexityOptions& options, std::int64_t stream_tokens);

  struct Length {
    std::int64_t length = 0;
    std::int64_t chunks = 0;
    std::vector<std::int64_t> edges;  // bucket k is positions [edges[k], edges[k + 1])
    std::size_t offset = 0;           // of this length's sums in `flat`
  };
  const std::vector<Length>& lengths() const { return lengths_; }
  const std::vector<std::string>& notes() const { return notes_; }  // one line each, for a person

  // losses[i], i < length - 1, is the loss in nats of the target at position i + 1 of chunk `chunk`.
  void add_chunk(std::size_t length_index, std::int64_t chunk, const float* losses);

  // All sums, to be added element by element over the ranks that shared the chunks (each chunk counted once).
  std::vector<double>& flat() { return flat_; }
  // After every chunk has been added. Throws a bug when one is missing or was counted twice.
  std::vector<PerplexityResult> results() const;

 private:
  std::vector<Length> lengths_;
  std::vector<std::string> notes_;
  std::vector<double> flat_;  // per length: per chunk (times added, mean, tail mean, last-64 mean), then a sum per bucket
};

// eval/perplexity.json: {"train_length", "lengths": [{"length", "perplexity", "tail_perplexity", "last_64_perplexity",
// "targets", "chunks", "loss_by_position": [{"begin", "end", "loss"}]}]}. What is not finite is null.
std::string perplexity_json(std::int64_t train_length, const std::vector<PerplexityResult>& results);
// eval/perplexity.csv: one line a length, without the loss by position.
std::string perplexity_csv(const std::vector<PerplexityResult>& results);

}  // namespace longwave
