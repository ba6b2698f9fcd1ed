#include "parallel/communicator.h"

#include <atomic>

#include "core/base/error.h"

namespace longwave {
namespace {

std::atomic<bool> waiting{false};
double seconds_waited = 0;  // the main thread's alone, as MPI is

}  // namespace

bool waits_for_ranks() { return waiting; }
double seconds_waited_for_ranks() { return seconds_waited; }
WaitingForRanks::WaitingForRanks() : watch_(seconds_waited) { waiting = true; }
WaitingForRanks::~WaitingForRanks() { waiting = false; }

std::size_t size_of(Element element) {
  switch (element) {
    case Element::f32: return 4;
    case Element::bf16: return 2;
    case Element::f64: return 8;
    case Element::i32: return 4;
    case Element::i64: return 8;
    case Element::byte: return 1;
  }
  return 0;
}

const char* name_of(Element element) {
  switch (element) {
    case Element::f32: return "fp32";
    case Element::bf16: return "bf16";
    case Element::f64: return "fp64";
    case Element::i32: return "int32";
    case Element::i64: return "int64";
    case Element::byte: return "byte";
  }
  return "?";
}

Element element_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return Element::f32;
    case DType::bf16: return Element::bf16;
    case DType::f64: return Element::f64;
    case DType::i32: return Element::i32;
  }
  LONGWAVE_CHECK(false, "no element for dtype {}", name_of(dtype));
}

bool Request::test() {
  if (operation_ == nullptr) return true;
  if (!operation_->test()) return false;
  drop();
  return true;
}

void Request::wait() {
  if (operation_ == nullptr) return;
  operation_->wait();
  drop();
}

void Communicator::all_reduce(void* data, std::int64_t count, Element element, Reduction reduction) {
  start_all_reduce(data, count, element, reduction).wait();
}

void Communicator::reduce_scatter(const void* from, void* to, std::int64_t count, Element element, Reduction reduction) {
  start_reduce_scatter(from, to, count, element, reduction).wait();
}

void Communicator::all_gather(const void* from, void* to, std::int64_t count, Element element) {
  start_all_gather(from, to, count, element).wait();
}

void Communicator::broadcast(void* data, std::int64_t count, Element element, int root) {
  start_broadcast(data, count, element, root).wait();
}

void Communicator::send(const void* data, std::int64_t count, Element element, int to, int tag) {
  start_send(data, count, element, to, tag).wait();
}

void Communicator::recv(void* data, std::int64_t count, Element element, int from, int tag) {
  start_recv(data, count, element, from, tag).wait();
}

}  // namespace longwave
