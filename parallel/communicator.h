// How ranks exchange tensors: one interface, over MPI for host memory (parallel/mpi) and over NCCL for device memory
// (parallel/nccl). Layers and optimizers are written against it alone.
//
// Conventions
// - Every member of the group calls the same collectives in the same order. `start_...` returns at once; from then until
//   `Request::wait` returns, the buffers belong to the communicator. Requests may be waited for in any order.
// - Pointers are memory of the implementation's device. On a device with streams an operation is ordered after the work
//   already submitted to the stream that the communicator was made with, and `wait` orders later work of that stream after
//   it; the host does not block.
// - Counts are elements, of any size: implementations cut messages to what their library can count.
// - Sums of bf16 run in fp32 and are rounded once. A reduction gives the same bits on every member and from run to run, and
//   all_reduce the same bits as reduce_scatter: contributions are added in rank order. `max` of a NaN is NaN.
// - Failures throw Error: a lost peer is ExitCode::lost. No destructor communicates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/base/stop_watch.h"
#include "core/tensor/dtype.h"

namespace longwave {

enum class Element : std::uint8_t { f32, bf16, f64, i32, i64, byte };
enum class Reduction : std::uint8_t { sum, max };

std::size_t size_of(Element element);
const char* name_of(Element element);
Element element_of(DType dtype);

template <class T> inline constexpr Element element_type = Element::byte;
template <> inline constexpr Element element_type<float> = Element::f32;
template <> inline constexpr Element element_type<bf16> = Element::bf16;
template <> inline constexpr Element element_type<double> = Element::f64;
template <> inline constexpr Element element_type<std::int32_t> = Element::i32;
template <> inline constexpr Element element_type<std::int64_t> = Element::i64;

// An operation under way, as its communicator keeps it.
class PendingOperation {
 public:
  virtual bool test() = 0;  // makes progress; true once finished
  virtual void wait() = 0;
  virtual void release() noexcept = 0;  // the handle is gone: recycle the operation once it has finished

 protected:
  ~PendingOperation() = default;
};

// The handle of an asynchronous operation. An empty one is finished.
class Request {
 public:
  Request() = default;
  explicit Request(PendingOperation* operation) : operation_(operation) {}
  Request(Request&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)) {}
  Request& operator=(Request&& other) noexcept {
    std::swap(operation_, other.operation_);
    return *this;
  }
  // Does not wait: a rank that throws must not stay in a destructor for the others.
  ~Request() { drop(); }

  bool test();
  void wait();

 private:
  void drop() noexcept {
    if (operation_ != nullptr) std::exchange(operation_, nullptr)->release();
  }

  PendingOperation* operation_ = nullptr;
};

// What this rank has sent to other ranks, by kind of operation.
enum class TrafficKind : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, point_to_point };
inline constexpr std::size_t traffic_kinds = 5;

struct Traffic {
  std::int64_t operations = 0;
  std::int64_t bytes = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Members of equal `color` form a new group, ordered by `key`. Collective.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  // In place: data [count].
  virtual Request start_all_reduce(void* data, std::int64_t count, Element element, Reduction reduction) = 0;
  // from [size * count] reduced over the group; part `rank` to `to` [count], which may be that part of `from`.
  virtual Request start_reduce_scatter(const void* from, void* to, std::int64_t count, Element element,
                                       Reduction reduction) = 0;
  // from [count] of every member to `to` [size * count] in rank order; `from` may be the own part of `to`.
  virtual Request start_all_gather(const void* from, void* to, std::int64_t count, Element element) = 0;
  virtual Request start_broadcast(void* data, std::int64_t count, Element element, int root) = 0;
  // Messages between two members with the same tag (0 to 1023) arrive in the order they were sent.
  virtual Request start_send(const void* data, std::int64_t count, Element element, int to, int tag) = 0;
  virtual Request start_recv(void* data, std::int64_t count, Element element, int from, int tag) = 0;
  virtual void barrier() = 0;

  // Blocking forms.
  void all_reduce(void* data, std::int64_t count, Element element, Reduction reduction);
  void reduce_scatter(const void* from, void* to, std::int64_t count, Element element, Reduction reduction);
  void all_gather(const void* from, void* to, std::int64_t count, Element element);
  void broadcast(void* data, std::int64_t count, Element element, int root);
  void send(const void* data, std::int64_t count, Element element, int to, int tag = 0);
  void recv(void* data, std::int64_t count, Element element, int from, int tag = 0);

  const Traffic& traffic(TrafficKind kind) const { return traffic_[static_cast<std::size_t>(kind)]; }
  void reset_traffic() { traffic_ = {}; }

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  void count_operation(TrafficKind kind) { ++traffic_[static_cast<std::size_t>(kind)].operations; }
  void count_bytes(TrafficKind kind, std::int64_t bytes) { traffic_[static_cast<std::size_t>(kind)].bytes += bytes; }

 private:
  int rank_ = 0;
  int size_ = 1;
  std::array<Traffic, traffic_kinds> traffic_{};
};

// Whether this process waits, in a communicator, for other ranks. Any thread may ask: of ranks that are all silent, the one
// that does not wait is the one they wait for.
bool waits_for_ranks();
// How long it has waited so far, for the main thread to ask: what communication adds to a step is the difference.
double seconds_waited_for_ranks();

// Held by an implementation while it waits.
class WaitingForRanks {
 public:
  WaitingForRanks();
  ~WaitingForRanks();
  WaitingForRanks(const WaitingForRanks&) = delete;
  WaitingForRanks& operator=(const WaitingForRanks&) = delete;

 private:
  StopWatch watch_;
};

// One value in host memory, reduced over the group: the form in which decisions are made together.
template <class T>
T all_reduce_value(Communicator& host, T value, Reduction reduction) {
  host.all_reduce(&value, 1, element_type<T>, reduction);
  return value;
}

}  // namespace longwave
