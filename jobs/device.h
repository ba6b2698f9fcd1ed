// Which device and which compute type a job runs on.
#pragma once

#include <memory>
#include <string>

#include "core/backend/backend.h"
#include "core/backend/profile/profile.h"
#include "jobs/config/config.h"

namespace longwave {

struct ChosenDevice {
  std::unique_ptr<Backend> backend;
  DType compute = DType::f32;
  std::string note;  // why, in one line for the log
  Profile* profile = nullptr;  // the backend's, with logging.profile
};

// Resolves run.device and run.precision and writes what was chosen back to `config`. `local_ranks` share this node; without
// OMP_NUM_THREADS each gets its part of the processors. Throws config_error: device: cuda in a program built without it.
ChosenDevice choose_device(Config& config, int local_ranks);

}  // namespace longwave
