#include "jobs/step_times.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace longwave {

Json StepTimes::to_json() const {
  return {{"data_seconds", data},
          {"forward_seconds", forward},
          {"backward_seconds", backward},
          {"optimizer_seconds", optimizer},
          {"exposed_communication_seconds", exposed_communication}};
}

SlowestRank find_slowest(Communicator& control, double own_work) {
  std::vector<double> all(static_cast<std::size_t>(control.size()));
  control.all_gather(&own_work, all.data(), 1, Element::f64);
  const auto slowest = std::max_element(all.begin(), all.end());
  const double mean = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  return {static_cast<int>(slowest - all.begin()), *slowest - mean};
}

Json memory_by_kind(const MemoryPlan& plan, std::size_t optimizer_bytes) {
  return {{"parameters", plan.parameters},
          {"gradients", plan.gradients},
          {"optimizer", optimizer_bytes},
          {"activations", plan.activations},
          {"tables", plan.tables}};
}

}  // namespace longwave
