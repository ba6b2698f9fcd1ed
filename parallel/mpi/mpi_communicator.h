// Communicator over MPI, for host memory.
//
// Reductions are not left to MPI_Allreduce: its order of additions is the library's choice, may differ between counts, and
// rounds bf16 at every hop. Here every rank receives the other ranks' contributions to its part, adds them in rank order,
// and (all_reduce) sends the result to all; the bytes sent are those of a ring. Short all_reduces exchange everything in one
// stage. Both ways give the same bits.
#pragma once

#include <mpi.h>

#include <memory>

#include "parallel/communicator.h"
#include "parallel/mpi/mpi_engine.h"

namespace longwave {

struct MpiLimits {
  // Elements in one MPI message; MPI counts are 32-bit, and some transports fail already above 2 GiB.
  std::int64_t message_elements = std::int64_t{1} << 27;
  // An all_reduce of at most so many bytes runs in one stage: latency, not bandwidth, is its cost.
  std::int64_t one_stage_bytes = 16 << 10;
};

class MpiCommunicator final : public Communicator {
 public:
  // All ranks of the job. MPI must be initialised (MpiEnvironment).
  static std::unique_ptr<MpiCommunicator> world(const MpiLimits& limits = {});

  std::unique_ptr<Communicator> split(int color, int key) override;
  Request start_all_reduce(void* data, std::int64_t count, Element element, Reduction reduction) override;
  Request start_reduce_scatter(const void* from, void* to, std::int64_t count, Element element, Reduction reduction) override;
  Request start_all_gather(const void* from, void* to, std::int64_t count, Element element) override;
  Request start_broadcast(void* data, std::int64_t count, Element element, int root) override;
  Request start_send(const void* data, std::int64_t count, Element element, int to, int tag) override;
  Request start_recv(void* data, std::int64_t count, Element element, int from, int tag) override;
  void barrier() override;

 private:
  MpiCommunicator(MPI_Comm comm, int rank, int size, const MpiLimits& limits, std::shared_ptr<MpiEngine> engine);
  static std::unique_ptr<MpiCommunicator> adopt(MPI_Comm comm, const MpiLimits& limits, std::shared_ptr<MpiEngine> engine);

  MpiOperation& begin(TrafficKind kind, Element element, std::int64_t count);
  Request launch(MpiOperation& operation);
  void send_message(MpiOperation& operation, const void* data, std::int64_t count, int to);
  void recv_message(MpiOperation& operation, void* data, std::int64_t count, int from);

  // Element range of `rank`'s part of an all_reduce of `count`.
  std::int64_t part_begin(std::int64_t count, int rank) const;

  void exchange_parts(MpiOperation& operation);
  void reduce_own_part(MpiOperation& operation);
  void finish_one_stage(MpiOperation& operation);
  void finish_reduce_scatter(MpiOperation& operation);
  void forward_broadcast(MpiOperation& operation);
  void reduce_with_scratch(MpiOperation& operation, const void* own, void* out, std::int64_t count);

  MPI_Comm comm_;
  MpiLimits limits_;
  std::shared_ptr<MpiEngine> engine_;
  std::uint32_t sequence_ = 0;  // of collectives, the same on every member
  std::vector<const void*> sources_;
};

}  // namespace longwave
