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
  std::unique_ptr<CheckpointReader> reader;  // null: none of the steps is good, or there are none
  std::vector<std::string> skipped;          // why the steps before it were not taken, one line each
  std::vector<std::int64_t> skipped_steps;
};

// The first of `steps`, which rank 0 gives in the order of preference, with nothing wrong. Collective.
FoundCheckpoint find_checkpoint(const std::string& checkpoints, std::vector<std::int64_t> steps, Communicator& control);

}  // namespace longwave
