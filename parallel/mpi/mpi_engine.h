// What drives operations over MPI forward: one per process, shared by its communicators.
//
// A collective here is one or two stages of point-to-point messages with tags of its own, so a stage may start whenever the
// one before has finished, at different moments on different ranks. Waiting for one operation moves all of them: else two
// ranks that wait for different operations first would each hold back what the other needs.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/communicator.h"

namespace longwave {

class MpiCommunicator;
class MpiEngine;

// Memory for the contributions of other ranks, kept between operations: a step allocates nothing after the first.
struct ScratchBlock {
  std::unique_ptr<std::byte[]> memory;
  std::size_t bytes = 0;
};

class MpiOperation final : public PendingOperation {
 public:
  explicit MpiOperation(MpiEngine& engine) : engine_(engine) {}
  bool test() override;
  void wait() override;
  void release() noexcept override { held = false; }

  using Stage = void (MpiCommunicator::*)(MpiOperation&);

  // Filled by the communicator that starts the operation.
  MpiCommunicator* owner = nullptr;
  Stage next = nullptr;  // what to do when the messages under way have arrived; null: finished
  std::vector<MPI_Request> messages;
  ScratchBlock scratch;
  TrafficKind kind = TrafficKind::all_reduce;
  Element element = Element::f32;
  Reduction reduction = Reduction::sum;
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t count = 0;
  int root = 0;
  int tag = 0;

  bool active = false;  // messages or stages are outstanding
  bool held = false;    // a Request refers to it

 private:
  MpiEngine& engine_;
};

class MpiEngine {
 public:
  // An idle operation, held by the Request that the caller makes of it.
  MpiOperation& acquire(MpiCommunicator& owner);
  // Moves every active operation as far as it goes without waiting.
  void progress();

  void take_scratch(MpiOperation& operation, std::size_t bytes);

 private:
  void advance(MpiOperation& operation);
  bool messages_arrived(MpiOperation& operation);
  void return_scratch(MpiOperation& operation);

  std::vector<std::unique_ptr<MpiOperation>> operations_;
  std::vector<ScratchBlock> free_scratch_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace longwave
