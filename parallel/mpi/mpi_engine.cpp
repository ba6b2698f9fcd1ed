#include "parallel/mpi/mpi_engine.h"

#include <sched.h>

#include <algorithm>

#include "parallel/mpi/mpi_check.h"
#include "parallel/mpi/mpi_communicator.h"

namespace longwave {
namespace {

// Polls that a short message may take before the processor is offered to a rank that shares it.
constexpr int polls_before_yield = 64;

}  // namespace

bool MpiOperation::test() {
  if (active) engine_.progress();
  return !active;
}

void MpiOperation::wait() {
  if (!active) return;
  WaitingForRanks waiting;
  for (int polls = 0; active; ++polls) {
    engine_.progress();
    if (active && polls >= polls_before_yield) sched_yield();
  }
}

MpiOperation& MpiEngine::acquire(MpiCommunicator& owner) {
  auto idle = std::find_if(operations_.begin(), operations_.end(),
                           [](const auto& operation) { return !operation->active && !operation->held; });
  if (idle == operations_.end()) {
    operations_.push_back(std::make_unique<MpiOperation>(*this));
    idle = operations_.end() - 1;
  }
  MpiOperation& operation = **idle;
  operation.owner = &owner;
  operation.next = nullptr;
  operation.messages.clear();
  operation.active = true;
  operation.held = true;
  return operation;
}

void MpiEngine::progress() {
  for (const auto& operation : operations_) {
    if (operation->active) advance(*operation);
  }
}

void MpiEngine::advance(MpiOperation& operation) {
  while (messages_arrived(operation)) {
    operation.messages.clear();
    if (operation.next == nullptr) {
      return_scratch(operation);
      operation.active = false;
      return;
    }
    const MpiOperation::Stage stage = operation.next;
    operation.next = nullptr;
    (operation.owner->*stage)(operation);
  }
}

bool MpiEngine::messages_arrived(MpiOperation& operation) {
  if (operation.messages.empty()) return true;
  const int count = static_cast<int>(operation.messages.size());
  statuses_.resize(std::max(statuses_.size(), operation.messages.size()));
  int arrived = 0;
  const int code = MPI_Testall(count, operation.messages.data(), &arrived, statuses_.data());
  if (code == MPI_ERR_IN_STATUS) {
    for (int i = 0; i < count; ++i) {
      const int message_code = statuses_[static_cast<std::size_t>(i)].MPI_ERROR;
      if (message_code != MPI_ERR_PENDING) check_mpi(message_code, "MPI_Testall", __FILE__, __LINE__);
    }
  }
  check_mpi(code, "MPI_Testall", __FILE__, __LINE__);
  return arrived != 0;
}

void MpiEngine::take_scratch(MpiOperation& operation, std::size_t bytes) {
  // The smallest block that is large enough, so that large ones stay free for the operations that need them.
  auto best = free_scratch_.end();
  for (auto block = free_scratch_.begin(); block != free_scratch_.end(); ++block) {
    if (block->bytes >= bytes && (best == free_scratch_.end() || block->bytes < best->bytes)) best = block;
  }
  if (best != free_scratch_.end()) {
    operation.scratch = std::move(*best);
    free_scratch_.erase(best);
    return;
  }
  operation.scratch = {std::make_unique<std::byte[]>(bytes), bytes};
}

void MpiEngine::return_scratch(MpiOperation& operation) {
  if (operation.scratch.memory == nullptr) return;
  free_scratch_.push_back(std::move(operation.scratch));
  operation.scratch = {};
}

}  // namespace longwave
