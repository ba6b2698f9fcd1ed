// Saving a run's state while it goes on. A save is a copy to host memory in the step, then two stages of work that no step
// waits for, each in a thread of its own that never calls MPI:
//
//   writing      every rank writes and syncs its file in step-N.partial
//   committing   when all have succeeded: rank 0 writes and syncs the manifest, renames the folder, syncs its parent, moves
//                `latest`, and only then removes old steps
//
// Stages end in collectives, which the main thread runs at a step's boundary once no rank is busy. So between any two calls
// every rank is in the same stage, and a failure of one rank is a failed save on all: cleaned up, reported, nothing older lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "parallel/agreement.h"
#include "parallel/checkpoint/rank_file.h"
#include "parallel/checkpoint/snapshot.h"
#include "parallel/communicator.h"

namespace longwave {

struct CheckpointerOptions {
  std::string folder;      // checkpoints/ of the run; made when missing
  bool async = true;       // false: start() returns when the save has ended
  bool verify = true;      // files are read back and compared before they count
  std::int64_t keep = 2;
  std::int64_t keep_every = 0;
  std::function<void()> before_commit;  // rank 0, in the committing thread: what must be on disk no later than the checkpoint
};

// How a save ended, the same on every rank.
struct SaveResult {
  std::int64_t step = 0;
  std::optional<SharedError> failure;  // why there is no step-N
  std::string warning;                 // it is there, but something after it failed; rank 0 only
  std::vector<std::int64_t> removed;   // older steps; rank 0 only
  std::uint64_t bytes = 0;             // of all ranks
  double stall_seconds = 0;            // of this rank's training
  double seconds = 0;                  // from start to end
};

class Checkpointer {
 public:
  Checkpointer(CheckpointerOptions options, Snapshot snapshot, Communicator& control, MeshShape mesh);
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  bool in_flight() const { return stage_ != Stage::idle; }
  std::int64_t step() const { return facts_.step; }  // of the save in flight, or the last one
  std::uint64_t bytes() const { return total_bytes_; }  // of a checkpoint, without its manifest
  Snapshot& snapshot() { return snapshot_; }            // must not be captured while a save is in flight

  // Begins a save; none is in flight. Collective. A result means it has ended already.
  std::optional<SaveResult> start(CheckpointFacts facts);
  // Whether this rank still works on the stage.
  bool busy() const;
  // Ends the stage: collective, when a save is in flight and busy() is false on every rank. A result ends the save.
  std::optional<SaveResult> advance();
  // Waits for the save in flight. Collective.
  SaveResult finish();

 private:
  enum class Stage { idle, writing, committing };
  using Clock = std::chrono::steady_clock;

  struct Commit {
    std::string warning;
    std::vector<std::int64_t> removed;
  };

  void prepare_folder();
  std::optional<SaveResult> end_writing();
  SaveResult end_committing();
  Manifest gather_manifest(const std::optional<RankFile>& own);
  Commit commit(const Manifest& manifest) const;
  SaveResult end(std::optional<SharedError> failure);
  bool first() const { return control_.rank() == 0; }

  CheckpointerOptions options_;
  Snapshot snapshot_;
  Communicator& control_;
  MeshShape mesh_;
  std::uint64_t total_bytes_ = 0;

  Stage stage_ = Stage::idle;
  CheckpointFacts facts_;
  Clock::time_point started_;
  double stall_seconds_ = 0;
  std::string partial_;
  std::future<std::optional<RankFile>> writing_;
  std::future<Commit> committing_;  // rank 0
};

// Rank 0's view of the disk: throws an io_error when `folder` cannot hold `bytes` more.
void require_free_space(const std::string& folder, std::uint64_t bytes);

}  // namespace longwave
