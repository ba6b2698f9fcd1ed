#include "parallel/flat_partition.h"

#include <algorithm>

#include "core/base/error.h"

namespace longwave {
namespace {

constexpr std::int64_t slice_alignment = 64;  // elements; the vector kernels' and the device's preferred boundary

}  // namespace

std::vector<Bucket> partition_flat(std::int64_t count, int ranks, int rank, std::int64_t bucket_elements) {
  LONGWAVE_CHECK(count >= 0 && ranks >= 1 && rank >= 0 && rank < ranks && bucket_elements >= 1);
  const std::int64_t unit = slice_alignment * ranks;
  const std::int64_t bucket_size = std::max(bucket_elements / unit, std::int64_t{1}) * unit;
  const std::int64_t even_end = ranks == 1 ? count : count / unit * unit;
  std::vector<Bucket> buckets;
  std::int64_t state = 0;
  const auto append = [&](Bucket bucket) {
    bucket.state = state;
    state += bucket.own_count();
    buckets.push_back(bucket);
  };
  for (std::int64_t begin = 0; begin < even_end; begin += bucket_size) {
    const std::int64_t end = std::min(begin + bucket_size, even_end);
    const std::int64_t slice = (end - begin) / ranks;
    append({.begin = begin, .end = end, .own_begin = begin + slice * rank, .own_end = begin + slice * (rank + 1)});
  }
  if (even_end < count) {
    const std::int64_t own_begin = rank == ranks - 1 ? even_end : count;
    append({.begin = even_end, .end = count, .rest = true, .own_begin = own_begin, .own_end = count});
  }
  return buckets;
}

std::int64_t owned_count(const std::vector<Bucket>& buckets) {
  std::int64_t count = 0;
  for (const Bucket& bucket : buckets) count += bucket.own_count();
  return count;
}

std::vector<OwnedSegment> owned_segments(const ParameterStore& store, const std::vector<Bucket>& buckets) {
  std::vector<OwnedSegment> segments;
  std::size_t bucket_index = 0;
  for (std::size_t index = 0; index < store.parameters().size(); ++index) {
    const Parameter& parameter = store[index];
    if (parameter.frozen) continue;
    const std::int64_t end = parameter.offset + parameter.count();
    // A parameter may span buckets, and a bucket parameters: both lists ascend, so one walk meets every pair.
    while (bucket_index < buckets.size() && buckets[bucket_index].end <= parameter.offset) ++bucket_index;
    for (std::size_t b = bucket_index; b < buckets.size() && buckets[b].begin < end; ++b) {
      const std::int64_t flat = std::max(buckets[b].own_begin, parameter.offset);
      const std::int64_t flat_end = std::min(buckets[b].own_end, end);
      if (flat >= flat_end) continue;
      segments.push_back({.parameter = index,
                          .bucket = b,
                          .begin = flat - parameter.offset,
                          .flat = flat,
                          .state = buckets[b].state + flat - buckets[b].own_begin,
                          .count = flat_end - flat});
    }
  }
  return segments;
}

}  // namespace longwave
