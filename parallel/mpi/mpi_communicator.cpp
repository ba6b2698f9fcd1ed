#include "parallel/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "parallel/host_reduce.h"
#include "parallel/mpi/mpi_check.h"

namespace longwave {
namespace {

// Tags: 0 to 1023 are send and recv's; collectives count through the rest of the 15 bits that every MPI has. Two
// collectives share a tag only when thousands lie between them, and then messages still arrive in order.
constexpr int first_collective_tag = 1024;
constexpr int collective_tags = 1 << 14;

MPI_Datatype mpi_type(Element element) {
  switch (element) {
    case Element::f32: return MPI_FLOAT;
    case Element::bf16: return MPI_UINT16_T;
    case Element::f64: return MPI_DOUBLE;
    case Element::i32: return MPI_INT32_T;
    case Element::i64: return MPI_INT64_T;
    case Element::byte: return MPI_BYTE;
  }
  return MPI_DATATYPE_NULL;
}

std::size_t bytes_of(std::int64_t count, Element element) { return static_cast<std::size_t>(count) * size_of(element); }

const void* at(const void* data, std::int64_t index, Element element) {
  return static_cast<const char*>(data) + bytes_of(index, element);
}

void* at(void* data, std::int64_t index, Element element) { return static_cast<char*>(data) + bytes_of(index, element); }

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm comm, int rank, int size, const MpiLimits& limits, std::shared_ptr<MpiEngine> engine)
    : Communicator(rank, size), comm_(comm), limits_(limits), engine_(std::move(engine)) {
  LONGWAVE_CHECK(limits.message_elements > 0 && limits.message_elements < (std::int64_t{1} << 31));
}

// The MPI communicator is never freed: MPI_Comm_free is collective, and objects die at different times on a rank that
// fails. MPI_Finalize takes them all.
std::unique_ptr<MpiCommunicator> MpiCommunicator::adopt(MPI_Comm comm, const MpiLimits& limits,
                                                        std::shared_ptr<MpiEngine> engine) {
  LONGWAVE_MPI(MPI_Comm_set_errhandler, comm, MPI_ERRORS_RETURN);
  int rank = 0;
  int size = 1;
  LONGWAVE_MPI(MPI_Comm_rank, comm, &rank);
  LONGWAVE_MPI(MPI_Comm_size, comm, &size);
  return std::unique_ptr<MpiCommunicator>(new MpiCommunicator(comm, rank, size, limits, std::move(engine)));
}

std::unique_ptr<MpiCommunicator> MpiCommunicator::world(const MpiLimits& limits) {
  MPI_Comm comm = MPI_COMM_NULL;
  LONGWAVE_MPI(MPI_Comm_dup, MPI_COMM_WORLD, &comm);
  return adopt(comm, limits, std::make_shared<MpiEngine>());
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  LONGWAVE_CHECK(color >= 0, "color {}", color);
  MPI_Comm comm = MPI_COMM_NULL;
  LONGWAVE_MPI(MPI_Comm_split, comm_, color, key, &comm);
  return adopt(comm, limits_, engine_);
}

MpiOperation& MpiCommunicator::begin(TrafficKind kind, Element element, std::int64_t count) {
  LONGWAVE_CHECK(count >= 0, "count {}", count);
  MpiOperation& operation = engine_->acquire(*this);
  operation.kind = kind;
  operation.element = element;
  operation.count = count;
  count_operation(kind);
  if (kind != TrafficKind::point_to_point) {
    operation.tag = first_collective_tag + static_cast<int>(sequence_++ % collective_tags);
  }
  return operation;
}

Request MpiCommunicator::launch(MpiOperation& operation) {
  Request request(&operation);
  request.test();
  return request;
}

void MpiCommunicator::send_message(MpiOperation& operation, const void* data, std::int64_t count, int to) {
  for (std::int64_t done = 0; done < count; done += limits_.message_elements) {
    const auto part = static_cast<int>(std::min(count - done, limits_.message_elements));
    MPI_Request& message = operation.messages.emplace_back(MPI_REQUEST_NULL);
    LONGWAVE_MPI(MPI_Isend, at(data, done, operation.element), part, mpi_type(operation.element), to, operation.tag, comm_,
                 &message);
  }
  count_bytes(operation.kind, static_cast<std::int64_t>(bytes_of(count, operation.element)));
}

void MpiCommunicator::recv_message(MpiOperation& operation, void* data, std::int64_t count, int from) {
  for (std::int64_t done = 0; done < count; done += limits_.message_elements) {
    const auto part = static_cast<int>(std::min(count - done, limits_.message_elements));
    MPI_Request& message = operation.messages.emplace_back(MPI_REQUEST_NULL);
    LONGWAVE_MPI(MPI_Irecv, at(data, done, operation.element), part, mpi_type(operation.element), from, operation.tag, comm_,
                 &message);
  }
}

// ---- all_reduce

std::int64_t MpiCommunicator::part_begin(std::int64_t count, int rank) const {
  return count / size() * rank + std::min<std::int64_t>(rank, count % size());
}

Request MpiCommunicator::start_all_reduce(void* data, std::int64_t count, Element element, Reduction reduction) {
  MpiOperation& operation = begin(TrafficKind::all_reduce, element, count);
  operation.from = data;
  operation.to = data;
  operation.reduction = reduction;
  if (size() == 1 || count == 0) return launch(operation);

  if (static_cast<std::int64_t>(bytes_of(count, element)) > limits_.one_stage_bytes) {
    exchange_parts(operation);
    return launch(operation);
  }
  engine_->take_scratch(operation, bytes_of(count * (size() - 1), element));
  // Receives are posted first and peers are visited from the next rank on, so that not all start with rank 0.
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank() + step) % size();
    recv_message(operation, at(operation.scratch.memory.get(), (peer - (peer > rank())) * count, element), count, peer);
  }
  for (int step = 1; step < size(); ++step) send_message(operation, data, count, (rank() + step) % size());
  operation.next = &MpiCommunicator::finish_one_stage;
  return launch(operation);
}

void MpiCommunicator::finish_one_stage(MpiOperation& operation) {
  reduce_with_scratch(operation, operation.to, operation.to, operation.count);
}

void MpiCommunicator::exchange_parts(MpiOperation& operation) {
  const Element element = operation.element;
  const std::int64_t own = part_begin(operation.count, rank() + 1) - part_begin(operation.count, rank());
  engine_->take_scratch(operation, bytes_of(own * (size() - 1), element));
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank() + step) % size();
    recv_message(operation, at(operation.scratch.memory.get(), (peer - (peer > rank())) * own, element), own, peer);
  }
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank() + step) % size();
    const std::int64_t begin = part_begin(operation.count, peer);
    send_message(operation, at(operation.from, begin, element), part_begin(operation.count, peer + 1) - begin, peer);
  }
  operation.next = operation.kind == TrafficKind::all_reduce ? &MpiCommunicator::reduce_own_part
                                                             : &MpiCommunicator::finish_reduce_scatter;
}

void MpiCommunicator::reduce_own_part(MpiOperation& operation) {
  const Element element = operation.element;
  const std::int64_t begin = part_begin(operation.count, rank());
  const std::int64_t own = part_begin(operation.count, rank() + 1) - begin;
  void* part = at(operation.to, begin, element);
  reduce_with_scratch(operation, part, part, own);
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank() + step) % size();
    const std::int64_t other = part_begin(operation.count, peer);
    recv_message(operation, at(operation.to, other, element), part_begin(operation.count, peer + 1) - other, peer);
  }
  for (int step = 1; step < size(); ++step) send_message(operation, part, own, (rank() + step) % size());
}

// Contributions in rank order: the own one stands between those of the lower and the higher ranks.
void MpiCommunicator::reduce_with_scratch(MpiOperation& operation, const void* own, void* out, std::int64_t count) {
  sources_.clear();
  for (int peer = 0; peer < size(); ++peer) {
    sources_.push_back(peer == rank() ? own
                                      : at(operation.scratch.memory.get(), (peer - (peer > rank())) * count, operation.element));
  }
  host_reduce(sources_.data(), size(), out, count, operation.element, operation.reduction);
}

// ---- reduce_scatter, all_gather

Request MpiCommunicator::start_reduce_scatter(const void* from, void* to, std::int64_t count, Element element,
                                              Reduction reduction) {
  MpiOperation& operation = begin(TrafficKind::reduce_scatter, element, count * size());
  operation.from = from;
  operation.to = to;
  operation.reduction = reduction;
  exchange_parts(operation);
  return launch(operation);
}

void MpiCommunicator::finish_reduce_scatter(MpiOperation& operation) {
  const std::int64_t count = operation.count / size();
  reduce_with_scratch(operation, at(operation.from, count * rank(), operation.element), operation.to, count);
}

Request MpiCommunicator::start_all_gather(const void* from, void* to, std::int64_t count, Element element) {
  MpiOperation& operation = begin(TrafficKind::all_gather, element, count);
  void* own = at(to, count * rank(), element);
  if (own != from && count > 0) std::memcpy(own, from, bytes_of(count, element));
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank() + step) % size();
    recv_message(operation, at(to, count * peer, element), count, peer);
  }
  for (int step = 1; step < size(); ++step) send_message(operation, own, count, (rank() + step) % size());
  return launch(operation);
}

// ---- broadcast: a binomial tree over ranks relative to the root

Request MpiCommunicator::start_broadcast(void* data, std::int64_t count, Element element, int root) {
  LONGWAVE_CHECK(root >= 0 && root < size(), "root {} of {}", root, size());
  MpiOperation& operation = begin(TrafficKind::broadcast, element, count);
  operation.to = data;
  operation.root = root;
  const int relative = (rank() - root + size()) % size();
  if (relative != 0) {
    const int parent = relative & (relative - 1);  // without its lowest bit
    recv_message(operation, data, count, (parent + root) % size());
  }
  operation.next = &MpiCommunicator::forward_broadcast;
  return launch(operation);
}

void MpiCommunicator::forward_broadcast(MpiOperation& operation) {
  const int relative = (rank() - operation.root + size()) % size();
  int bit = 1;
  while (bit < size() && (relative & bit) == 0) bit *= 2;
  for (bit /= 2; bit > 0; bit /= 2) {
    const int child = (relative + bit + operation.root) % size();
    if (relative + bit < size()) send_message(operation, operation.to, operation.count, child);
  }
}

// ---- point to point, barrier

Request MpiCommunicator::start_send(const void* data, std::int64_t count, Element element, int to, int tag) {
  LONGWAVE_CHECK(tag >= 0 && tag < first_collective_tag, "tag {}", tag);
  MpiOperation& operation = begin(TrafficKind::point_to_point, element, count);
  operation.tag = tag;
  send_message(operation, data, count, to);
  return launch(operation);
}

Request MpiCommunicator::start_recv(void* data, std::int64_t count, Element element, int from, int tag) {
  LONGWAVE_CHECK(tag >= 0 && tag < first_collective_tag, "tag {}", tag);
  MpiOperation& operation = begin(TrafficKind::point_to_point, element, count);
  operation.tag = tag;
  recv_message(operation, data, count, from);
  return launch(operation);
}

void MpiCommunicator::barrier() {
  MpiOperation& operation = engine_->acquire(*this);
  LONGWAVE_MPI(MPI_Ibarrier, comm_, &operation.messages.emplace_back(MPI_REQUEST_NULL));
  Request request(&operation);
  request.wait();
}

}  // namespace longwave
