#include "jobs/device.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/backend/cpu/isa.h"
#include "core/backend/cuda/cuda_device.h"
#include "core/backend/profile/profiling_backend.h"
#include "parallel/agreement.h"

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

// Whether this rank can run the job on a GPU.
struct GpuOffer {
  CudaDevices devices;
  std::string obstacle;  // empty when it can
  bool unexpected = false;  // the obstacle: not in a program without CUDA, nor where the job asks for the CPU

  bool usable() const { return obstacle.empty(); }
};

GpuOffer gpu_offer(const Config& config, int local_rank) {
  if (config.run.device == DeviceChoice::cpu) return {{}, "run.device: cpu", false};
  GpuOffer offer{find_cuda_devices(config.model.head_dim), {}, false};
  offer.unexpected = offer.devices.built;
  if (!offer.devices.obstacle.empty()) {
    offer.obstacle = offer.devices.obstacle;
  } else if (const CudaGpu& gpu = offer.devices.gpus[device_of(local_rank, offer.devices)]; !gpu.obstacle.empty()) {
    offer.obstacle = gpu.obstacle;
  } else if (config.run.precision == Precision::fp32) {
    offer.obstacle = "run.precision is fp32, and the GPU kernels compute in bf16";
  }
  if (config.run.device == DeviceChoice::cuda && !offer.usable()) {
    throw config_error("run.device: cuda, but {}; use run.device=cpu", offer.obstacle);
  }
  return offer;
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

// What the ranks of a job have in common on CPUs.
struct CommonProcessor {
  bool has_bf16 = false;
  std::string instructions_note;  // follows the name of the instructions
  std::string precision_note;     // follows that of the precision
};

ChosenDevice choose_cpu(Config& config, std::unique_ptr<Backend> backend, const CommonProcessor& common, const std::string& why) {
  ChosenDevice chosen;
  chosen.backend = std::move(backend);
  const DeviceInfo info = chosen.backend->info();
  const Precision wanted = config.run.precision;
  const bool use_bf16 = wanted == Precision::bf16 || (wanted == Precision::automatic && common.has_bf16);
  chosen.compute = use_bf16 ? DType::bf16 : DType::f32;
  if (config.logging.profile) chosen.profile = add_profile(chosen.backend);
  const std::string precision_note =
      use_bf16 && !info.has_bf16 ? " in software: run.precision=fp32 is faster here" : common.precision_note;
  chosen.note = fmt::format("cpu{}, {}, {}{}, {}{}", why, info.name, info.instructions, common.instructions_note,
                            name_of(chosen.compute), precision_note);
  config.run.device = DeviceChoice::cpu;
  config.run.precision = use_bf16 ? Precision::bf16 : Precision::fp32;
  return chosen;
}

// The smallest of the ranks' values and the first rank that has it.
struct Smallest {
  std::int64_t value;
  int rank;
};
Smallest smallest_of(Communicator& control, std::int64_t own) {
  const std::int64_t smallest = -all_reduce_value(control, -own, Reduction::max);
  const std::int64_t rank = own == smallest ? control.rank() : control.size();
  return {smallest, static_cast<int>(-all_reduce_value(control, -rank, Reduction::max))};
}

// All ranks compute with the instructions of the least of them from here on.
std::string limit_instructions(Communicator& control) {
  const auto own = static_cast<std::int64_t>(active_isa());
  const Smallest least = smallest_of(control, own);
  const bool differ = all_reduce_value(control, own, Reduction::max) != least.value;
  limit_isa(static_cast<Isa>(least.value));
  return differ ? fmt::format(" (all that rank {} has)", least.rank) : std::string();
}

}  // namespace

ChosenDevice choose_device(Config& config, int local_ranks, int local_rank) {
  const GpuOffer offer = gpu_offer(config, local_rank);
  if (offer.usable()) return choose_cuda(config, offer.devices, local_rank);
  auto backend = make_cpu_backend({threads_of_rank(local_ranks)});
  const CommonProcessor own{.has_bf16 = backend->info().has_bf16, .instructions_note = {}, .precision_note = {}};
  return choose_cpu(config, std::move(backend), own, offer.unexpected ? fmt::format(" (no GPU: {})", offer.obstacle) : "");
}

ChosenDevice choose_common_device(Config& config, Communicator& control, int local_ranks, int local_rank) {
  GpuOffer offer;
  ChosenDevice chosen;
  together(control, [&] { offer = gpu_offer(config, local_rank); });
  const Smallest gpu = smallest_of(control, offer.usable());
  if (gpu.value == 1) {
    together(control, [&] { chosen = choose_cuda(config, offer.devices, local_rank); });
    return chosen;
  }
  const std::string obstacle = broadcast_text(control, offer.obstacle, gpu.rank);
  std::string why;
  if (offer.usable()) {
    why = fmt::format(" (no GPU on rank {}: {})", gpu.rank, obstacle);
  } else if (offer.unexpected) {
    why = fmt::format(" (no GPU: {})", offer.obstacle);
  }

  CommonProcessor common;
  std::unique_ptr<Backend> backend;
  together(control, [&] { active_isa(); });
  common.instructions_note = limit_instructions(control);
  together(control, [&] { backend = make_cpu_backend({threads_of_rank(local_ranks)}); });
  const bool own_bf16 = backend->info().has_bf16;
  const Smallest bf16 = smallest_of(control, own_bf16);
  common.has_bf16 = bf16.value == 1;
  const bool chosen_here = config.run.precision == Precision::automatic;
  if (chosen_here && own_bf16 && !common.has_bf16) common.precision_note = fmt::format(" (rank {} has no bf16)", bf16.rank);
  together(control, [&] { chosen = choose_cpu(config, std::move(backend), common, why); });
  return chosen;
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
