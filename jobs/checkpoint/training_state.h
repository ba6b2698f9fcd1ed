// What the training loop carries from step to step beside the tensors: saved in a checkpoint's manifest under "training".
#pragma once

#include <cstdint>

#include "jobs/step_guard.h"
#include "parallel/checkpoint/manifest.h"

namespace longwave {

struct TrainingState {
  std::int64_t step = 0;          // steps made, skipped ones too
  std::int64_t updates = 0;       // steps that were not skipped: the exponent in Adam's bias correction
  GuardState guard;               // what bad steps are told by
  double seconds = 0;             // of training, over all attempts
};

Json to_json(const TrainingState& state);
TrainingState training_state(const CheckpointFacts& facts);  // data_error where a counter is missing

}  // namespace longwave
