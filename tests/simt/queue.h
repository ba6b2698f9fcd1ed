// Streams as queues of steps. When they run is a choice: LONGWAVE_SIMT_QUEUES=lazy (the default) runs a stream only when
// somebody waits for it, `eager` as soon as work is queued. Between the two a missing dependency shows as a wrong result.
#pragma once

#include <cuda_runtime.h>

#include <functional>

namespace longwave::simt {

// Queues a step. It returns true when it is done, false to be called again later: others may go on meanwhile. A step of a
// collective is `active`: its peers may be waiting for it, so waiting on any stream runs it too.
void enqueue_step(cudaStream_t stream, std::function<bool()> step, bool collective = false);

// The first failure, kept and returned by every call that waits, as CUDA does.
void set_failed(cudaError_t error);
// The communicator that is asked at the `polls`-th question from now on for an error has lost a rank.
void lose_rank_after(int polls);
// Forgets failures and all queued work, for the next test.
void reset();

}  // namespace longwave::simt
