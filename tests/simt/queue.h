// Streams as queues of steps. When they run is a choice: LONGWAVE_SIMT_QUEUES=lazy (the default) runs a stream only when
// somebody waits for it, `eager` as soon as work is queued. Between the two a missing dependency shows as a wrong result.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>

namespace longwave::simt {

// Queues a step, or notes it where the stream is captured. It returns true when it is done, false to be called again later:
// others may go on meanwhile. A step of a `communicator` is active: its peers may be waiting for it, so waiting on any stream
// runs it too. Every launch of a graph runs a copy of the step, so what it remembers is its own.
void enqueue_step(cudaStream_t stream, std::function<bool()> step, const void* communicator = nullptr);

// Fails the device where these bytes of a copy or a product are not, or no longer, in an allocation.
bool still_allocated(const void* pointer, std::size_t bytes);
// Whether a graph that was not destroyed, or a capture, has steps of the communicator.
bool graphs_hold(const void* communicator);

// The first failure, kept and returned by every call that waits, as CUDA does.
void set_failed(cudaError_t error);
// The communicator that is asked at the `polls`-th question from now on for an error has lost a rank.
void lose_rank_after(int polls);
// Forgets failures and all queued work, for the next test.
void reset();

}  // namespace longwave::simt
