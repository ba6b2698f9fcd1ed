// How the flat range of trained parameters is cut over the data axis: into buckets, whose gradients are reduced as soon as
// the backward pass has produced them, and every bucket into one slice a rank, which that rank updates (ZeRO stage 1:
// Rajbhandari et al., arXiv 1910.02054, section 5.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/model/parameter_store.h"

namespace longwave {

// Elements [begin, end) of the flat range. Cut into equal slices, or, when it is the short rest that has no equal slices,
// owned as a whole by the last rank.
struct Bucket {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool rest = false;
  std::int64_t own_begin = 0;  // this rank's slice; may be empty in the rest
  std::int64_t own_end = 0;
  std::int64_t state = 0;      // where the slice's optimizer state begins in this rank's buffers

  std::int64_t count() const { return end - begin; }
  std::int64_t own_count() const { return own_end - own_begin; }
};

// Buckets in ascending order that cover [0, count). Slices begin at multiples of 64 elements.
std::vector<Bucket> partition_flat(std::int64_t count, int ranks, int rank, std::int64_t bucket_elements);

// Elements that `rank` owns.
std::int64_t owned_count(const std::vector<Bucket>& buckets);

// The part of one parameter that lies in one owned slice.
struct OwnedSegment {
  std::size_t parameter = 0;
  std::size_t bucket = 0;
  std::int64_t begin = 0;  // elements, into the parameter's local matrix
  std::int64_t flat = 0;   // into the flat range
  std::int64_t state = 0;  // into this rank's optimizer state
  std::int64_t count = 0;
};

// In ascending flat order.
std::vector<OwnedSegment> owned_segments(const ParameterStore& store, const std::vector<Bucket>& buckets);

}  // namespace longwave
