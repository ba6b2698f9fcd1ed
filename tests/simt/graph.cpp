// Stream capture and graphs: what streams are asked to do is noted with their order, and queued again at every launch, each
// captured stream on a queue of its own. So a dependency that was not captured is missing at every launch.
//
// One capture at a time, by the one thread that there is, in thread-local mode.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>

#include "tests/simt/counters.h"
#include "tests/simt/queue.h"
#include "tests/simt/stream.h"

namespace longwave::simt {
namespace {

// A launch under way: the queues of the captured streams, and whether the moments of its events have come.
struct Launched {
  std::vector<cudaStream_t> queues;
  std::vector<std::shared_ptr<bool>> moments;
};

struct Recording {
  std::vector<std::function<void(const Launched&)>> items;  // in the order of the calls
  std::size_t streams = 0, moments = 0, operations = 0;
  std::set<const void*> communicators;
};

// Graphs and executable graphs, whose recordings hold communicators.
std::set<const Recording*>& live_recordings() {
  static auto* const live = new std::set<const Recording*>;
  return *live;
}

std::shared_ptr<Recording> make_recording() {
  auto* const made = new Recording;
  live_recordings().insert(made);
  return {made, [](Recording* recording) {
            live_recordings().erase(recording);
            delete recording;
          }};
}

// So many operations are recorded; one more breaks the capture.
std::size_t capture_limit() {
  const char* text = std::getenv("LONGWAVE_SIMT_CAPTURE_LIMIT");
  return text == nullptr ? std::numeric_limits<std::size_t>::max() : std::strtoull(text, nullptr, 10);
}

}  // namespace

class Capture {
 public:
  explicit Capture(cudaStream_t origin) { join(origin); }
  ~Capture() {
    for (const auto& [stream, number] : streams_) stream->capture = nullptr;
  }

  void join(cudaStream_t stream) {
    stream->capture = this;
    streams_[stream] = after_.size();
    after_.emplace_back();
    ++recording_->streams;
  }

  void step(cudaStream_t stream, std::function<bool()> step, const void* communicator) {
    if (communicator != nullptr) recording_->communicators.insert(communicator);
    // The step itself never runs; every launch gets a copy of it as it is now.
    add_operation(stream, [number = number_of(stream), step = std::move(step), communicator](const Launched& launched) {
      push_step(launched.queues[number], step, communicator);
    });
  }

  void external_record(cudaStream_t stream, cudaEvent_t event) {
    add_operation(stream, [number = number_of(stream), event](const Launched& launched) {
      push_record(launched.queues[number], event);
    });
  }

  CapturedMoment record(cudaStream_t stream, const std::shared_ptr<Capture>& self) {
    const std::size_t moment = recording_->moments++;
    add(stream, [number = number_of(stream), moment](const Launched& launched) {
      push_step(launched.queues[number], [done = launched.moments[moment]] { return *done = true; }, nullptr);
    });
    return {self, moment, after_[number_of(stream)]};
  }

  void wait(cudaStream_t stream, const CapturedMoment& moment) {
    add(stream, [number = number_of(stream), moment = moment.number](const Launched& launched) {
      push_step(launched.queues[number], [done = launched.moments[moment]] { return *done; }, nullptr);
    });
    std::vector<std::size_t>& after = after_[number_of(stream)];
    after.resize(std::max(after.size(), moment.after.size()));
    for (std::size_t i = 0; i < moment.after.size(); ++i) after[i] = std::max(after[i], moment.after[i]);
  }

  bool begun_on(cudaStream_t stream) const { return number_of(stream) == 0; }
  // Whether the first stream comes after all that the others were asked to do.
  bool joined() const {
    std::vector<std::size_t> origin = after_[0];
    origin.resize(after_.size());
    for (std::size_t other = 1; other < after_.size(); ++other) {
      if (origin[other] < after_[other][other]) return false;
    }
    return true;
  }

  void break_off() { broken_ = true; }
  bool broken() const { return broken_; }
  std::shared_ptr<Recording> recording() const { return recording_; }

 private:
  std::size_t number_of(cudaStream_t stream) const { return streams_.at(stream); }

  void add(cudaStream_t stream, std::function<void(const Launched&)> item) {
    const std::size_t number = number_of(stream);
    std::vector<std::size_t>& after = after_[number];
    after.resize(std::max(after.size(), number + 1));
    ++after[number];
    recording_->items.push_back(std::move(item));
  }
  void add_operation(cudaStream_t stream, std::function<void(const Launched&)> item) {
    if (recording_->operations == capture_limit()) break_off();
    ++recording_->operations;
    add(stream, std::move(item));
  }

  std::map<cudaStream_t, std::size_t> streams_;  // numbered as they joined
  std::vector<std::vector<std::size_t>> after_;  // of each stream, how many items of every stream come before its next
  std::shared_ptr<Recording> recording_ = make_recording();
  bool broken_ = false;
};

namespace {

std::shared_ptr<Capture> current;  // the capture under way

}  // namespace

bool is_broken(const Capture* capture) { return capture != nullptr && capture->broken(); }

void capture_step(cudaStream_t stream, std::function<bool()> step, const void* communicator) {
  if (!stream->capture->broken()) stream->capture->step(stream, std::move(step), communicator);
}

void capture_record(cudaStream_t stream, cudaEvent_t event) {
  event->done = nullptr;
  event->time = nullptr;
  if (!stream->capture->broken()) {
    event->captured = std::make_shared<CapturedMoment>(stream->capture->record(stream, current));
  }
}

void capture_external_record(cudaStream_t stream, cudaEvent_t event) {
  event->captured = nullptr;
  if (!stream->capture->broken()) stream->capture->external_record(stream, event);
}

cudaError_t capture_wait(cudaStream_t stream, cudaEvent_t event) {
  if (is_broken(current.get())) return cudaErrorStreamCaptureInvalidated;
  if (event->captured == nullptr) {
    if (event->done == nullptr) return cudaSuccess;
    std::fprintf(stderr, "simt: a captured stream waits for what came before the capture\n");
    current->break_off();
    return cudaErrorStreamCaptureIsolation;
  }
  if (event->captured->capture.lock() == nullptr) {
    if (current != nullptr) current->break_off();
    return cudaErrorCapturedEvent;
  }
  if (stream->capture == nullptr) current->join(stream);
  current->wait(stream, *event->captured);
  return cudaSuccess;
}

bool refused_in_capture(const char* call) {
  if (current == nullptr) return false;
  std::fprintf(stderr, "simt: %s is not permitted while a stream is captured\n", call);
  current->break_off();
  return true;
}

void forget_captures() { current = nullptr; }

bool graphs_hold(const void* communicator) {
  const auto& live = live_recordings();
  return std::any_of(live.begin(), live.end(), [&](const Recording* recording) {
    return recording->communicators.count(communicator) > 0;
  });
}

}  // namespace longwave::simt

using namespace longwave::simt;

struct SimtGraph {
  std::shared_ptr<const Recording> recording;
};

struct SimtGraphExec {
  std::shared_ptr<const Recording> recording;
  std::vector<cudaStream_t> branches;  // of all captured streams but the first
};

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (current != nullptr) return cudaErrorStreamCaptureUnsupported;
  current = std::make_shared<Capture>(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (stream->capture == nullptr) return cudaErrorInvalidValue;
  if (!current->begun_on(stream)) {
    current->break_off();
    return cudaErrorStreamCaptureUnmatched;
  }
  const std::shared_ptr<Capture> ended = std::move(current);
  if (ended->broken()) return cudaErrorStreamCaptureInvalidated;
  if (!ended->joined()) return cudaErrorStreamCaptureUnjoined;
  *graph = new SimtGraph{ended->recording()};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream->capture == nullptr    ? cudaStreamCaptureStatusNone
            : is_broken(stream->capture) ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes != nullptr) return cudaErrorInvalidValue;  // only their number is asked for
  *count = graph->recording->operations;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  if (refused_in_capture("cudaGraphInstantiate")) return cudaErrorStreamCaptureUnsupported;
  *executable = new SimtGraphExec{graph->recording, {}};
  while ((*executable)->branches.size() + 1 < graph->recording->streams) (*executable)->branches.push_back(take_branch());
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (refused_in_capture("cudaGraphLaunch")) return cudaErrorStreamCaptureUnsupported;
  ++counters().graph_launches;
  const Recording& recording = *executable->recording;
  Launched launched{{stream}, {}};
  launched.queues.insert(launched.queues.end(), executable->branches.begin(), executable->branches.end());
  for (std::size_t i = 0; i < recording.moments; ++i) launched.moments.push_back(std::make_shared<bool>(false));
  for (const auto& item : recording.items) item(launched);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  for (const cudaStream_t branch : executable->branches) give_back_branch(branch);
  delete executable;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
