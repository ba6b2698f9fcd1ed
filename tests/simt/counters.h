// How often the host did what a training step should not do, or not often.
#pragma once

#include <cstdint>

namespace longwave::simt {

struct Counters {
  std::int64_t waits = 0;            // cudaStreamSynchronize, cudaEventSynchronize
  std::int64_t pageable_copies = 0;  // between device and host memory that is not pinned: the driver waits inside
  std::int64_t allocations = 0;      // of device or pinned memory
  std::int64_t searches = 0;         // for an algorithm of cuBLASLt
  std::int64_t queued = 0;           // operations given to streams one by one, not by a graph
  std::int64_t graph_launches = 0;
};

Counters& counters();

}  // namespace longwave::simt
