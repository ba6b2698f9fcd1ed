// What the ranks compute on, as training would choose it, and how fast their GPUs reach each other.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/backend/matrix_rate.h"
#include "core/base/error.h"
#include "jobs/preflight/node_report.h"
#include "parallel/agreement.h"
#include "parallel/device_communicator.h"

namespace longwave {
namespace {

constexpr std::int64_t reduce_floats = 16 << 20;

// One rank's; the GPU by its place on the bus, empty on the CPU.
struct RankDevice {
  char host[128];
  char bus_id[32];
  double memory;
};

void copy_text(char* to, std::size_t size, const std::string& text) { std::strncpy(to, text.c_str(), size - 1); }

// Any head_dim that the GPU kernels have: which one a job will ask for is not known.
ChosenDevice choose_for_any_job(MpiEnvironment& mpi) {
  Config config;
  config.model.head_dim = 64;
  return choose_device(config, mpi.local_size(), mpi.local_rank());
}

std::vector<RankDevice> gather_devices(Communicator& all, const std::string& host, const ChosenDevice& device) {
  RankDevice own = {};
  copy_text(own.host, sizeof own.host, host);
  copy_text(own.bus_id, sizeof own.bus_id, device.bus_id);
  own.memory = device.memory;
  std::vector<RankDevice> devices(static_cast<std::size_t>(all.size()));
  all.all_gather(&own, devices.data(), sizeof own, Element::byte);
  return devices;
}

void count_devices(const std::vector<RankDevice>& devices, NodeReport& report) {
  std::set<std::string> on_this_node;
  std::string elsewhere;
  for (const RankDevice& device : devices) {
    if (device.bus_id[0] == '\0') continue;
    if (report.host != device.host) {
      elsewhere = device.host;
      continue;
    }
    const bool first = on_this_node.empty();
    on_this_node.insert(device.bus_id);
    report.device_memory = first ? device.memory : std::min(report.device_memory, device.memory);
  }
  report.devices = static_cast<int>(on_this_node.size());
  if (report.devices > 0 && report.devices < report.ranks) {
    report.problems.push_back(fmt::format("{} ranks, but {} GPUs; start one rank a GPU", report.ranks, report.devices));
  }
  if (report.devices == 0 && !elsewhere.empty()) {
    report.problems.push_back(fmt::format("computes on {}, but {} on a GPU", report.device, elsewhere));
  }
}

}  // namespace

ChosenDevice inspect_devices(MpiEnvironment& mpi, Communicator& all, NodeReport& report) {
  ChosenDevice chosen;
  together(all, [&] {
    chosen = choose_for_any_job(mpi);
    report.device = chosen.note;
    report.matrix_rate = measure_matrix_rate(*chosen.backend, chosen.compute);  // every rank's at once, as in training
  });
  count_devices(gather_devices(all, report.host, chosen), report);
  return chosen;
}

double measure_device_all_reduce(Communicator& all, Backend& backend, const NodeReport& report) {
  const std::int64_t shared = report.devices == report.ranks ? 0 : 1;
  if (all.size() == 1 || all_reduce_value(all, shared, Reduction::max) != 0) return 0;
  std::unique_ptr<Communicator> devices;
  together(all, [&] { devices = make_device_communicator(all, backend); });
  const std::unique_ptr<void, std::function<void(void*)>> values(backend.allocate(reduce_floats * sizeof(float)),
                                                                [&](void* pointer) { backend.release(pointer); });
  const auto reduce = [&] {
    devices->all_reduce(values.get(), reduce_floats, Element::f32, Reduction::sum);
    backend.synchronize();
  };
  reduce();  // connects
  all.barrier();
  const auto start = std::chrono::steady_clock::now();
  reduce();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return all_reduce_bandwidth(all.size(), reduce_floats, all_reduce_value(all, elapsed.count(), Reduction::max));
}

}  // namespace longwave
