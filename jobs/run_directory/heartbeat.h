// heartbeats/rank-NNNNN.json: where a rank is now. Watchdogs read the others', so that a job that ends because a rank died can
// name that rank, its host and its phase. Only the thread that does the work beats: a background thread would go on beating
// for a rank that is stuck.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.h"

namespace longwave {

struct HeartbeatRecord {
  int rank = 0;
  int pid = 0;
  std::string host;
  std::string phase;
  std::int64_t step = 0;
  std::uint64_t beat = 0;  // counts; a reader compares it with what it saw before, as clocks of nodes differ
  std::string time;
};

class Heartbeat {
 public:
  // After rank 0 made the run directory.
  Heartbeat(const std::string& run_directory, int rank);
  // Overwrites the record in place: a few microseconds and no space on disk.
  void beat(std::string_view phase, std::int64_t step);

 private:
  File file_;
  HeartbeatRecord record_;
};

// Removes those of an earlier attempt, which may have had more ranks. Rank 0, before the ranks make theirs.
void clear_heartbeats(const std::string& run_directory);

// Of every rank that has one, by rank. A record caught in the middle of being overwritten is read again.
std::vector<HeartbeatRecord> read_heartbeats(const std::string& run_directory);

}  // namespace longwave
