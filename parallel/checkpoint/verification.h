// Which checkpoint a run goes on from: decided by all ranks together.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "parallel/checkpoint/reader.h"
#include "parallel/communicator.h"

namespace longwave {

// Opens a checkpoint and checks every byte of it, the files shared out among the ranks. Collective: all throw the same
// data_error (SharedError) when anything is wrong. The way from a folder to values to be trusted.
std::unique_ptr<CheckpointReader> open_verified(const std::string& folder, Communicator& control);

struct FoundCheckpoint {
  std::unique_ptr<CheckpointReader> reader;  // null: the run has no steps
  std::vector<std::string> skipped;          // why newer steps were not taken, one line each
  std::vector<std::int64_t> skipped_steps;
};

// The newest step in a checkpoints folder with nothing wrong. Collective. When there are steps but every one is bad, all throw
// a data_error that names what is wrong: nothing is started anew in their place.
FoundCheckpoint find_checkpoint(const std::string& checkpoints, Communicator& control);

}  // namespace longwave
