// Where a rank's time goes in training, and which rank the others wait for.
#pragma once

#include "core/base/json.h"
#include "core/model/transformer.h"
#include "parallel/communicator.h"

namespace longwave {

// Seconds of this rank, summed over the steps since the last logged one.
struct StepTimes {
  double data = 0;       // until the batch was there
  double forward = 0;
  double backward = 0;   // from the loss on; gradients start to be reduced meanwhile
  double optimizer = 0;  // the rest of the reduction, the norm, and the update
  double exposed_communication = 0;  // of forward, backward and optimizer: waiting for other ranks

  double own_work() const { return data + forward + backward + optimizer - exposed_communication; }
  Json to_json() const;  // {"data_seconds", "forward_seconds", ...}
};

// Adds what this process waits for other ranks within its scope.
class WaitWatch {
 public:
  explicit WaitWatch(double& seconds) : seconds_(seconds) {}
  ~WaitWatch() { seconds_ += seconds_waited_for_ranks() - start_; }
  WaitWatch(const WaitWatch&) = delete;
  WaitWatch& operator=(const WaitWatch&) = delete;

 private:
  double& seconds_;
  double start_ = seconds_waited_for_ranks();
};

// The rank with most work of its own, and by how many seconds that is above the mean of the ranks.
struct SlowestRank {
  int rank = 0;
  double behind = 0;
};
SlowestRank find_slowest(Communicator& control, double own_work);  // collective

// Bytes of this rank: {"parameters", "gradients", "optimizer", "activations", "tables"}.
Json memory_by_kind(const MemoryPlan& plan, std::size_t optimizer_bytes);

}  // namespace longwave
