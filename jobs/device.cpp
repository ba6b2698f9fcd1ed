#include "jobs/device.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

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

}  // namespace

ChosenDevice choose_device(Config& config, int local_ranks) {
  if (config.run.device == DeviceChoice::cuda) {
    throw config_error("run.device: cuda, but this program was built without CUDA; use run.device=cpu");
  }
  ChosenDevice chosen;
  chosen.backend = make_cpu_backend({threads_of_rank(local_ranks)});
  const DeviceInfo info = chosen.backend->info();
  if (config.run.precision == Precision::bf16 && !info.has_bf16) {
    throw config_error("run.precision: bf16, but {} ({}) has no bf16 products; use run.precision=fp32", info.name, info.instructions);
  }
  const bool use_bf16 = config.run.precision != Precision::fp32 && info.has_bf16;
  chosen.compute = use_bf16 ? DType::bf16 : DType::f32;
  if (config.logging.profile) {
    auto profiling = std::make_unique<ProfilingBackend>(std::move(chosen.backend));
    chosen.profile = &profiling->profile();
    chosen.backend = std::move(profiling);
  }
  chosen.note = fmt::format("cpu, {}, {}, {}", info.name, info.instructions, name_of(chosen.compute));
  config.run.device = DeviceChoice::cpu;
  config.run.precision = use_bf16 ? Precision::bf16 : Precision::fp32;
  return chosen;
}

}  // namespace longwave
