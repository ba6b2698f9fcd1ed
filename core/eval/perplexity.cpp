#include "core/eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace longwave {
namespace {

constexpr std::size_t chunk_stride = 4;  // times added, mean, tail mean, last-64 mean
constexpr std::int64_t last_targets = 64;

// 1 = edges[0] < ... < edges.back() = length, evenly spaced in the logarithm, with an edge at the training length.
std::vector<std::int64_t> position_edges(std::int64_t length, std::int64_t buckets, std::int64_t train_length) {
  std::vector<std::int64_t> edges;
  for (std::int64_t k = 0; k <= buckets; ++k) {
    const double exponent = static_cast<double>(k) / static_cast<double>(buckets);
    edges.push_back(std::llround(std::pow(static_cast<double>(length), exponent)));
  }
  if (1 < train_length && train_length < length) edges.push_back(train_length);
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

// Mean of losses [count - last, count).
double tail_mean(const float* losses, std::int64_t count, std::int64_t last) {
  double sum = 0;
  for (std::int64_t i = count - last; i < count; ++i) sum += losses[i];
  return sum / static_cast<double>(last);
}

}  // namespace

PerplexitySums::PerplexitySums(const PerplexityOptions& options, std::int64_t stream_tokens) {
  LONGWAVE_CHECK(options.position_buckets > 0);
  const std::int64_t tokens = std::min(options.tokens, stream_tokens);
  std::size_t size = 0;
  for (std::int64_t length : options.lengths) {
    if (length < 2) {
      notes_.push_back(fmt::format("perplexity at length {} is left out: a chunk needs two tokens", length));
      continue;
    }
    if (length > tokens) {
      notes_.push_back(stream_tokens < length
          ? fmt::format("perplexity at length {} is left out: data.validation has {} tokens", length, stream_tokens)
          : fmt::format("perplexity at length {} is left out: evaluate.tokens is {}", length, options.tokens));
      continue;
    }
    Length entry;
    entry.length = length;
    entry.chunks = tokens / length;
    entry.edges = position_edges(length, options.position_buckets, options.train_length);
    entry.offset = size;
    size += static_cast<std::size_t>(entry.chunks) * chunk_stride + entry.edges.size() - 1;
    lengths_.push_back(std::move(entry));
  }
  flat_.assign(size, 0.0);
}

void PerplexitySums::add_chunk(std::size_t length_index, std::int64_t chunk, const float* losses) {
  const Length& entry = lengths_.at(length_index);
  LONGWAVE_CHECK(0 <= chunk && chunk < entry.chunks, "chunk {} of {}", chunk, entry.chunks);
  const std::int64_t targets = entry.length - 1;
  double* sums = flat_.data() + entry.offset + static_cast<std::size_t>(chunk) * chunk_stride;
  sums[0] += 1;
  sums[1] += tail_mean(losses, targets, targets);
  sums[2] += tail_mean(losses, targets, entry.length / 2);
  sums[3] += tail_mean(losses, targets, std::min(targets, last_targets));

  double* buckets = flat_.data() + entry.offset + static_cast<std::size_t>(entry.chunks) * chunk_stride;
  for (std::size_t k = 0; k + 1 < entry.edges.size(); ++k) {
    for (std::int64_t position = entry.edges[k]; position < entry.edges[k + 1]; ++position) buckets[k] += losses[position - 1];
  }
}

std::vector<PerplexityResult> PerplexitySums::results() const {
  std::vector<PerplexityResult> results;
  for (const Length& entry : lengths_) {
    const double* sums = flat_.data() + entry.offset;
    double mean = 0, tail = 0, last = 0;
    for (std::int64_t chunk = 0; chunk < entry.chunks; ++chunk, sums += chunk_stride) {
      LONGWAVE_CHECK(sums[0] == 1, "chunk {} of length {} was counted {} times", chunk, entry.length, sums[0]);
      mean += sums[1];
      tail += sums[2];
      last += sums[3];
    }
    const auto chunks = static_cast<double>(entry.chunks);
    PerplexityResult result;
    result.length = entry.length;
    result.chunks = entry.chunks;
    result.targets = entry.chunks * (entry.length - 1);
    result.perplexity = std::exp(mean / chunks);
    result.tail_perplexity = std::exp(tail / chunks);
    result.last_64_perplexity = std::exp(last / chunks);
    for (std::size_t k = 0; k + 1 < entry.edges.size(); ++k) {
      const auto width = static_cast<double>(entry.edges[k + 1] - entry.edges[k]);
      result.loss_by_position.push_back({entry.edges[k], entry.edges[k + 1], sums[k] / (chunks * width)});
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::string perplexity_json(std::int64_t train_length, const std::vector<PerplexityResult>& results) {
  nlohmann::ordered_json lengths = nlohmann::ordered_json::array();
  for (const PerplexityResult& result : results) {
    nlohmann::ordered_json buckets = nlohmann::ordered_json::array();
    for (const PositionBucket& bucket : result.loss_by_position) {
      buckets.push_back({{"begin", bucket.begin}, {"end", bucket.end}, {"loss", bucket.loss}});
    }
    lengths.push_back({{"length", result.length},
                       {"perplexity", result.perplexity},
                       {"tail_perplexity", result.tail_perplexity},
                       {"last_64_perplexity", result.last_64_perplexity},
                       {"targets", result.targets},
                       {"chunks", result.chunks},
                       {"loss_by_position", std::move(buckets)}});
  }
  const nlohmann::ordered_json file = {{"train_length", train_length}, {"lengths", std::move(lengths)}};
  return file.dump(2) + "\n";
}

std::string perplexity_csv(const std::vector<PerplexityResult>& results) {
  std::string text = "length,perplexity,tail_perplexity,last_64_perplexity,targets,chunks\n";
  for (const PerplexityResult& result : results) {
    text += fmt::format("{},{},{},{},{},{}\n", result.length, result.perplexity, result.tail_perplexity,
                        result.last_64_perplexity, result.targets, result.chunks);
  }
  return text;
}

}  // namespace longwave
