// Communicator over NCCL, for device memory.
//
// Reductions are not left to NCCL, as they are not left to MPI: its order of additions depends on algorithm, topology and
// count, it rounds bf16 at every hop, and its maximum may lose a NaN. Every rank receives the other ranks' contributions to
// its part and adds them in rank order with a kernel of ours; the bytes sent are those of a ring.
//
// A communicator has a stream of its own. An operation waits there, by an event, for the work submitted to the compute stream
// so far; `Request::wait` makes the compute stream wait for the operation. The host does not block.
//
// Messages: NCCL knows no tags. Two members exchange messages in the order in which both start them, whatever their tags.
// They are given to NCCL together, at the next wait, test or collective, so that a receive does not hold up the send after it.
//
// Operations can be recorded in a CUDA graph, by all members alike: their streams are tied to the compute stream, which is what
// is captured. Traffic counts what is started, not what a graph repeats. NCCL gives up a communicator only when no graph has
// its operations any more, and scratch that grows moves: either calls `forget_record` first.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <functional>
#include <memory>
#include <vector>

#include "core/backend/cuda/memory.h"
#include "parallel/communicator.h"

namespace longwave {

struct NcclLimits {
  double start_seconds = 300;                          // for all members to come
  std::int64_t piece_bytes = std::int64_t{32} << 20;  // of one rank's part that are reduced at a time: scratch is size - 1 times that
};

class NcclOperation;

class NcclCommunicator final : public Communicator {
 public:
  // The members of `host`, which carries the NCCL id and outlives this. Collective. Throws (ExitCode::lost) when a member does
  // not come within the limit.
  static std::unique_ptr<NcclCommunicator> create(Communicator& host, cudaStream_t compute, const NcclLimits& limits = {},
                                                  std::function<void()> forget_record = nullptr);
  // Communicates with nobody: what is under way is abandoned.
  ~NcclCommunicator() override;

  std::unique_ptr<Communicator> split(int color, int key) override;
  Request start_all_reduce(void* data, std::int64_t count, Element element, Reduction reduction) override;
  Request start_reduce_scatter(const void* from, void* to, std::int64_t count, Element element, Reduction reduction) override;
  Request start_all_gather(const void* from, void* to, std::int64_t count, Element element) override;
  Request start_broadcast(void* data, std::int64_t count, Element element, int root) override;
  Request start_send(const void* data, std::int64_t count, Element element, int to, int tag) override;
  Request start_recv(void* data, std::int64_t count, Element element, int from, int tag) override;
  void barrier() override;

  // Throws (ExitCode::lost) when NCCL has noticed that a rank or the network is gone.
  void throw_if_lost();
  // This communicator and all that were split from it, as long as they live. Outlives them.
  using Groups = std::vector<NcclCommunicator*>;
  std::shared_ptr<const Groups> groups() const { return groups_; }

 private:
  friend class NcclOperation;

  struct Message {
    const void* from;
    void* to;
    std::size_t bytes;
    int peer;
    NcclOperation* operation;
  };

  NcclCommunicator(Communicator& host, std::unique_ptr<Communicator> own_host, cudaStream_t compute, const NcclLimits& limits,
                   std::function<void()> forget_record, std::shared_ptr<Groups> groups);

  void connect();
  void settle(ncclResult_t result, const char* call);
  void abort();
  bool captured() const;
  void send_messages();
  void follow_compute();
  NcclOperation& begin(TrafficKind kind);
  Request finish(NcclOperation& operation);
  void copy_own(const void* from, void* to, std::int64_t bytes);
  // Part r is elements [begin(r), begin(r + 1)); afterwards `to` holds this rank's.
  template <class Begin>
  void reduce_own_part(const void* from, void* to, const Begin& begin, Element element, Reduction reduction);

  std::unique_ptr<Communicator> own_host_;  // of a group made by split
  Communicator& host_;
  cudaStream_t compute_;
  NcclLimits limits_;
  std::function<void()> forget_record_;
  std::shared_ptr<Groups> groups_;
  CudaStream stream_;
  CudaEvent submitted_;
  CudaScratch scratch_{forget_record_};
  ncclComm_t comm_ = nullptr;  // null in a group of one
  std::vector<std::unique_ptr<NcclOperation>> operations_;
  std::vector<Message> messages_;  // not yet given to NCCL
};

}  // namespace longwave
