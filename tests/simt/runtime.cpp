#include <cuda_runtime.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/simt/access.h"
#include "tests/simt/block.h"
#include "tests/simt/counters.h"
#include "tests/simt/queue.h"
#include "tests/simt/stream.h"

namespace longwave::simt {
namespace {

struct Runtime {
  std::set<SimtStream*> streams;
  std::vector<SimtStream*> branches;  // of the streams, those for graphs that no graph has now
  std::map<const char*, std::size_t> pinned;  // begin and bytes
  cudaError_t failed = cudaSuccess;
  int device = 0;
  bool eager = false;
  std::unique_ptr<DeviceAccess> open_always;

  Runtime() {
    const char* order = std::getenv("LONGWAVE_SIMT_QUEUES");
    eager = order != nullptr && std::strcmp(order, "eager") == 0;
    // Opened and closed at every call it would cost more than what is called; that the host touches it is seen where queues wait.
    if (eager) open_always = std::make_unique<DeviceAccess>();
  }
};

Runtime& runtime() {
  static auto* const instance = new Runtime;
  return *instance;
}

int device_count() {
  const char* text = std::getenv("LONGWAVE_SIMT_DEVICES");
  return text == nullptr ? 8 : std::atoi(text);
}

// Of every emulated GPU, as 10 x major + minor.
int capability() {
  const char* text = std::getenv("LONGWAVE_SIMT_CAPABILITY");
  return text == nullptr ? 90 : std::atoi(text);
}

constexpr int steps_a_query = 64;

// Runs the stream's first step; true when it finished.
bool advance(SimtStream* stream) {
  if (stream->steps.empty() || runtime().failed != cudaSuccess) return false;
  const DeviceAccess access;
  if (!stream->steps.front().run()) return false;
  // A failure inside the step has emptied the queues.
  if (stream->steps.empty()) return true;
  stream->collectives -= stream->steps.front().collective ? 1 : 0;
  stream->steps.pop_front();
  return true;
}

bool collective_under_way() {
  for (const SimtStream* stream : runtime().streams) {
    if (stream->collectives > 0) return true;
  }
  return false;
}

// Runs `wanted` until `reached`; what it waits for, and collectives that peers may wait for, run in between.
template <class Reached> cudaError_t run_until(SimtStream* wanted, const Reached& reached) {
  if (reached()) return runtime().failed;
  const DeviceAccess access;  // one for all steps: opening and closing costs more than most of them
  while (runtime().failed == cudaSuccess && !reached()) {
    if (wanted != nullptr && advance(wanted)) continue;
    bool moved = false;
    for (SimtStream* stream : runtime().streams) moved |= stream != wanted && advance(stream);
    if (moved) continue;
    if (!collective_under_way()) {
      std::fprintf(stderr, "simt: streams wait for an event that no queued work will record\n");
      set_failed(cudaErrorLaunchFailure);
    }
    sched_yield();
  }
  return runtime().failed;
}

cudaError_t drain(SimtStream* stream) {
  return run_until(stream, [stream] { return stream->steps.empty(); });
}

cudaError_t drain_all() {
  for (SimtStream* stream : runtime().streams) {
    if (const cudaError_t result = drain(stream); result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

bool is_pinned(const void* pointer, std::size_t bytes) {
  const auto& pinned = runtime().pinned;
  auto found = pinned.upper_bound(static_cast<const char*>(pointer));
  if (found == pinned.begin()) return false;
  --found;
  return static_cast<const char*>(pointer) + bytes <= found->first + found->second;
}

bool good_device_range(const void* pointer, std::size_t bytes) {
  if (inside_allocation(pointer, bytes)) return true;
  std::fprintf(stderr, "simt: %zu bytes of a copy or a product are outside every allocation of device memory\n", bytes);
  return false;
}

// What a call that queues work on the stream returns.
cudaError_t state_of(SimtStream* stream) {
  return is_broken(stream->capture) ? cudaErrorStreamCaptureInvalidated : runtime().failed;
}

void queue_copy(SimtStream* stream, void* to, const void* from, std::size_t bytes) {
  enqueue_step(stream, [=] {
    for (const void* end : {static_cast<const void*>(to), from}) {
      if (is_device(end) && !still_allocated(end, bytes)) return true;
    }
    open_device();
    std::memmove(to, from, bytes);
    return true;
  });
}

void set_when_reached(SimtStream* stream, SimtEvent* event, void (*queue)(SimtStream*, std::function<bool()>, const void*)) {
  event->done = std::make_shared<bool>(false);
  event->time = std::make_shared<SimtEvent::Clock::time_point>();
  event->captured = nullptr;
  queue(stream, [done = event->done, time = event->time] {
    *done = true;
    *time = SimtEvent::Clock::now();
    return true;
  }, nullptr);
}

}  // namespace

void enqueue_step(cudaStream_t stream, std::function<bool()> step, const void* communicator) {
  if (stream == nullptr) std::fprintf(stderr, "simt: work on the default stream, which we never use\n"), std::abort();
  if (stream->capture != nullptr) return capture_step(stream, std::move(step), communicator);
  ++counters().queued;
  push_step(stream, std::move(step), communicator);
}

void push_step(cudaStream_t stream, std::function<bool()> step, const void* communicator) {
  stream->steps.push_back({std::move(step), communicator != nullptr});
  stream->collectives += communicator != nullptr ? 1 : 0;
  while (runtime().eager && advance(stream)) {}
}

void push_record(cudaStream_t stream, cudaEvent_t event) { set_when_reached(stream, event, push_step); }

bool still_allocated(const void* pointer, std::size_t bytes) {
  if (good_device_range(pointer, bytes)) return true;
  set_failed(cudaErrorLaunchFailure);
  return false;
}

cudaStream_t take_branch() {
  auto& branches = runtime().branches;
  // One that still runs the last launch of a graph that is gone would add an order that is not there.
  const auto idle =
      std::find_if(branches.begin(), branches.end(), [](const SimtStream* branch) { return branch->steps.empty(); });
  if (idle == branches.end()) return *runtime().streams.insert(new SimtStream).first;
  SimtStream* const taken = *idle;
  branches.erase(idle);
  return taken;
}

void give_back_branch(cudaStream_t branch) { runtime().branches.push_back(branch); }

void enqueue(cudaStream_t stream, const Launch& launch) {
  enqueue_step(stream, [launch] {
    open_device();
    if (!run_launch(launch)) set_failed(cudaErrorLaunchFailure);
    return true;
  });
}

void set_failed(cudaError_t error) {
  if (runtime().failed == cudaSuccess) runtime().failed = error;
}

void reset() {
  runtime().failed = cudaSuccess;
  forget_captures();
  for (SimtStream* stream : runtime().streams) {
    stream->steps.clear();
    stream->collectives = 0;
  }
  take_reports();
}

Counters& counters() {
  static Counters instance;
  return instance;
}

}  // namespace longwave::simt

using namespace longwave::simt;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnmatched: return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent: return "cudaErrorCapturedEvent";
  }
  return "?";
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error) + 4; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
  runtime().device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated GPU %d", device);
  properties->totalGlobalMem = std::size_t{64} << 30;
  properties->major = capability() / 10;
  properties->minor = capability() % 10;
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  if (refused_in_capture("cudaMalloc")) return cudaErrorStreamCaptureUnsupported;
  ++counters().allocations;
  *pointer = allocate_device(bytes);
  return *pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  if (refused_in_capture("cudaFree")) return cudaErrorStreamCaptureUnsupported;
  const cudaError_t result = drain_all();
  return free_device(pointer) ? result : cudaErrorInvalidValue;
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  if (refused_in_capture("cudaMallocHost")) return cudaErrorStreamCaptureUnsupported;
  ++counters().allocations;
  *pointer = std::malloc(bytes > 0 ? bytes : 1);
  if (*pointer == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*pointer, 0xff, bytes);
  runtime().pinned[static_cast<const char*>(*pointer)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* pointer) {
  if (refused_in_capture("cudaFreeHost")) return cudaErrorStreamCaptureUnsupported;
  if (pointer != nullptr && runtime().pinned.erase(static_cast<const char*>(pointer)) == 0) return cudaErrorInvalidValue;
  const cudaError_t result = drain_all();
  std::free(pointer);
  return result;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return state_of(stream);
  const bool from_device = kind != cudaMemcpyHostToDevice, to_device = kind != cudaMemcpyDeviceToHost;
  if (from_device != is_device(from) || to_device != is_device(to)) return cudaErrorInvalidValue;
  if ((from_device && !good_device_range(from, bytes)) || (to_device && !good_device_range(to, bytes))) return cudaErrorInvalidValue;
  const bool pageable = (!from_device && !is_pinned(from, bytes)) || (!to_device && !is_pinned(to, bytes));
  if (pageable && stream->capture != nullptr && refused_in_capture("cudaMemcpyAsync of memory that is not pinned")) {
    return cudaErrorStreamCaptureUnsupported;
  }
  if (pageable) ++counters().pageable_copies;
  if (!from_device && !is_pinned(from, bytes)) {
    // The driver has copied pageable memory before it returns.
    auto staged = std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    enqueue_step(stream, [=] {
      open_device();
      std::memcpy(to, staged->data(), bytes);
      return true;
    });
    return runtime().failed;
  }
  queue_copy(stream, to, from, bytes);
  return !to_device && pageable ? drain(stream) : state_of(stream);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return state_of(stream);
  if (!good_device_range(to, bytes)) return cudaErrorInvalidValue;
  enqueue_step(stream, [=] {
    if (!still_allocated(to, bytes)) return true;
    open_device();
    std::memset(to, value, bytes);
    return true;
  });
  return state_of(stream);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new SimtStream;
  runtime().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream->capture != nullptr && refused_in_capture("cudaStreamDestroy")) return cudaErrorStreamCaptureUnsupported;
  const cudaError_t result = drain(stream);
  runtime().streams.erase(stream);
  delete stream;
  return result;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (refused_in_capture("cudaStreamSynchronize")) return cudaErrorStreamCaptureUnsupported;
  ++counters().waits;
  return drain(stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (stream->capture != nullptr || event->captured != nullptr) return capture_wait(stream, event);
  if (event->done != nullptr) enqueue_step(stream, [done = event->done] { return *done; });
  return runtime().failed;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new SimtEvent;
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (stream->capture != nullptr) {
    capture_record(stream, event);
  } else {
    set_when_reached(stream, event, enqueue_step);
  }
  return state_of(stream);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (flags != cudaEventRecordExternal || stream->capture == nullptr) return cudaErrorInvalidValue;
  capture_external_record(stream, event);
  return state_of(stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (refused_in_capture("cudaEventQuery")) return cudaErrorStreamCaptureUnsupported;
  if (event->captured != nullptr) return cudaErrorCapturedEvent;
  if (runtime().failed != cudaSuccess) return runtime().failed;
  if (event->done == nullptr || *event->done) return cudaSuccess;
  // Somebody who polls must see progress, as on a device.
  const DeviceAccess access;
  bool moved = true;
  for (int round = 0; round < steps_a_query && moved && runtime().failed == cudaSuccess && !*event->done; ++round) {
    moved = false;
    for (SimtStream* stream : runtime().streams) moved |= advance(stream);
  }
  if (!*event->done) sched_yield();
  return runtime().failed != cudaSuccess ? runtime().failed : *event->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (from->captured != nullptr || to->captured != nullptr) return cudaErrorCapturedEvent;
  if (!from->timed || !to->timed || from->done == nullptr || to->done == nullptr) return cudaErrorInvalidResourceHandle;
  if (!*from->done || !*to->done) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(*to->time - *from->time).count();
  return runtime().failed;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (refused_in_capture("cudaEventSynchronize")) return cudaErrorStreamCaptureUnsupported;
  if (event->captured != nullptr) return cudaErrorCapturedEvent;
  ++counters().waits;
  if (event->done == nullptr) return cudaSuccess;
  return run_until(nullptr, [done = event->done] { return *done; });
}
