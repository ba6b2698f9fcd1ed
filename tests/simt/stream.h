// What a stream and an event are, for runtime.cpp and graph.cpp.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace longwave::simt {

class Capture;

// Where in a capture an event was recorded.
struct CapturedMoment {
  std::weak_ptr<Capture> capture;
  std::size_t number = 0;          // of the capture's moments
  std::vector<std::size_t> after;  // how many items of each of its streams come before
};

// graph.cpp: the stream's part of a capture that is under way, for a stream with one. Broken, it records nothing any more.
void capture_step(cudaStream_t stream, std::function<bool()> step, const void* communicator);
void capture_record(cudaStream_t stream, cudaEvent_t event);
void capture_external_record(cudaStream_t stream, cudaEvent_t event);
bool is_broken(const Capture* capture);
// What waiting for the event comes to where it was recorded in a capture or the stream is captured: the stream may join.
cudaError_t capture_wait(cudaStream_t stream, cudaEvent_t event);
// True, and the end of the capture, where one is under way: `call` is not permitted then.
bool refused_in_capture(const char* call);
void forget_captures();

// Queues what a launched graph has: nobody asked for it one by one.
void push_step(cudaStream_t stream, std::function<bool()> step, const void* communicator);
void push_record(cudaStream_t stream, cudaEvent_t event);

// A queue for a branch of a graph that is launched: one that is idle, kept for later launches.
cudaStream_t take_branch();
void give_back_branch(cudaStream_t branch);

}  // namespace longwave::simt

struct SimtStream {
  struct Step {
    std::function<bool()> run;
    bool collective;
  };
  std::deque<Step> steps;
  int collectives = 0;  // of the steps
  longwave::simt::Capture* capture = nullptr;  // that notes what comes instead of queueing it
};

struct SimtEvent {
  using Clock = std::chrono::steady_clock;

  bool timed = false;
  std::shared_ptr<bool> done;  // of the latest record; null before the first
  std::shared_ptr<Clock::time_point> time;
  std::shared_ptr<const longwave::simt::CapturedMoment> captured;  // null: the latest record was not in a capture
};
