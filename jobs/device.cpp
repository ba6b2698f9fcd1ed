#include "jobs/device.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/backend/cuda/cuda_device.h"
#include "core/backend/profile/profiling_backend.h"

namespace longwave {
namespace {

int threads_of_rank(int local_ranks) {
  if (const char* given = std::getenv("OMP_NUM_THREADS"); given != nullptr && *given != '\0') return 0;
  cpu_set_t set;
  CPU_ZERO(&set);
  LONGWAVE_SYSTEM("sched_getaffinity", "this process", sched_getaffinity(0, sizeof set, &set));
  const int mine = CPU_COUNT(&set);
  const auto all = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  // A launcher that binds ranks has already divided the processors.
  return mine < all ? mine : std::max(1, all / std::max(1, local_ranks));
}

std::size_t device_of(int local_rank, const CudaDevices& devices) {
  return static_cast<std::size_t>(local_rank) % devices.gpus.size();
}

// Why this job cannot run on a GPU; empty when it can.
std::string cuda_obstacle(const Config& config, const CudaDevices& devices, int local_rank) {
  if (!devices.obstacle.empty()) return devices.obstacle;
  const CudaGpu& gpu = devices.gpus[device_of(local_rank, devices)];
  if (!gpu.obstacle.empty()) return gpu.obstacle;
  if (config.run.precision == Precision::fp32) return "run.precision is fp32, and the GPU kernels compute in bf16";
  return {};
}

Profile* add_profile(std::unique_ptr<Backend>& backend) {
  auto profiling = std::make_unique<ProfilingBackend>(std::move(backend));
  Profile* const profile = &profiling->profile();
  backend = std::move(profiling);
  return profile;
}

ChosenDevice choose_cuda(Config& config, const CudaDevices& devices, int local_rank) {
  const std::size_t device = device_of(local_rank, devices);
  ChosenDevice chosen;
  chosen.backend = make_cuda_backend(static_cast<int>(device));
  const DeviceInfo info = chosen.backend->info();
  chosen.compute = DType::bf16;
  chosen.bus_id = devices.gpus[device].bus_id;
  chosen.memory = devices.gpus[device].memory;
  chosen.note = fmt::format("cuda, {}, {}, {}", info.name, info.instructions, name_of(chosen.compute));
  if (config.logging.profile) chosen.profile = add_profile(chosen.backend);
  chosen.recorder = dynamic_cast<Recorder*>(chosen.backend.get());
  config.run.device = DeviceChoice::cuda;
  config.run.precision = Precision::bf16;
  return chosen;
}

ChosenDevice choose_cpu(Config& config, int local_ranks, const std::string& why) {
  ChosenDevice chosen;
  chosen.backend = make_cpu_backend({threads_of_rank(local_ranks)});
  const DeviceInfo info = chosen.backend->info();
  const bool use_bf16 = config.run.precision == Precision::bf16 || (config.run.precision == Precision::automatic && info.has_bf16);
  chosen.compute = use_bf16 ? DType::bf16 : DType::f32;
  if (config.logging.profile) chosen.profile = add_profile(chosen.backend);
  chosen.note = fmt::format("cpu{}, {}, {}, {}{}", why, info.name, info.instructions, name_of(chosen.compute),
                            use_bf16 && !info.has_bf16 ? " in software: run.precision=fp32 is faster here" : "");
  config.run.device = DeviceChoice::cpu;
  config.run.precision = use_bf16 ? Precision::bf16 : Precision::fp32;
  return chosen;
}

}  // namespace

ChosenDevice choose_device(Config& config, int local_ranks, int local_rank) {
  if (config.run.device == DeviceChoice::cpu) return choose_cpu(config, local_ranks, "");
  const CudaDevices devices = find_cuda_devices(config.model.head_dim);
  const std::string obstacle = cuda_obstacle(config, devices, local_rank);
  if (obstacle.empty()) return choose_cuda(config, devices, local_rank);
  if (config.run.device == DeviceChoice::cuda) throw config_error("run.device: cuda, but {}; use run.device=cpu", obstacle);
  // Nobody expects a GPU of a program that was built without CUDA.
  return choose_cpu(config, local_ranks, devices.built ? fmt::format(" (no GPU: {})", obstacle) : "");
}

void refuse_shared_devices(Communicator& control, const ChosenDevice& device, const std::string& host) {
  struct Place {
    char text[128];
  };
  std::vector<Place> places(static_cast<std::size_t>(control.size()));
  Place& own = places[static_cast<std::size_t>(control.rank())];
  if (!device.bus_id.empty()) std::strncpy(own.text, (host + " " + device.bus_id).c_str(), sizeof own.text - 1);
  control.all_gather(&own, places.data(), sizeof(Place), Element::byte);
  for (std::size_t a = 0; a < places.size(); ++a) {
    for (std::size_t b = a + 1; b < places.size(); ++b) {
      if (places[a].text[0] == '\0' || std::strcmp(places[a].text, places[b].text) != 0) continue;
      throw config_error("ranks {} and {} share one GPU ({}); start one rank a GPU (srun --gpus-per-task=1, or mpirun with as many "
                         "ranks as nvidia-smi lists), or use run.device=cpu", a, b, places[a].text);
    }
  }
}

}  // namespace longwave
