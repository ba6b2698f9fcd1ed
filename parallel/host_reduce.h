// Element-wise reduction of buffers in host memory, in the order given: the same inputs give the same bits whatever the
// number of threads and however the range was cut.
#pragma once

#include <cstdint>

#include "parallel/communicator.h"

namespace longwave {

// out[i] = sources[0][i] (+ or max) sources[1][i] ... ; each source and `out` hold `count` elements; `out` may be one of the
// sources. bf16 is summed in fp32 and rounded once.
void host_reduce(const void* const* sources, int num_sources, void* out, std::int64_t count, Element element,
                 Reduction reduction);

}  // namespace longwave
