// Which device and which compute type a job runs on.
#pragma once

#include <memory>
#include <string>

#include "core/backend/backend.h"
#include "core/backend/profile/profile.h"
#include "core/backend/recorder.h"
#include "jobs/config/config.h"
#include "parallel/communicator.h"

namespace longwave {

struct ChosenDevice {
  std::unique_ptr<Backend> backend;
  DType compute = DType::f32;
  std::string note;            // what and why, in one line for the log
  std::string bus_id;          // of the GPU; empty on the CPU
  double memory = 0;           // bytes of the GPU
  Profile* profile = nullptr;  // the backend's, with logging.profile
  Recorder* recorder = nullptr;  // the backend, where it is one: not with logging.profile
};

// Resolves run.device and run.precision and writes what was chosen back to `config`. `local_ranks` share this node and this is
// number `local_rank` of them: without OMP_NUM_THREADS each gets its part of the processors, and each takes the visible GPU of
// its number. `auto` is the GPU where there is one that can run this model in this precision, else the CPU. Throws
// config_error where `cuda` cannot be had.
ChosenDevice choose_device(Config& config, int local_ranks, int local_rank = 0);

// The same for the ranks of a job, on whatever nodes they are: `auto` is what all of them have, a GPU or none, bf16 or fp32. On
// CPUs all compute with the instructions of the least of them, so that what several ranks hold in common has the same bits on
// each. Collective; throws on every rank.
ChosenDevice choose_common_device(Config& config, Communicator& control, int local_ranks, int local_rank);

// Throws config_error on every rank when two of a host have taken one GPU. Collective.
void refuse_shared_devices(Communicator& control, const ChosenDevice& device, const std::string& host);

}  // namespace longwave
