// Reads a run's logs/rank-NNNNN.jsonl while their ranks write them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace longwave {

// One rank's log, from its beginning.
class LogReader {
 public:
  explicit LogReader(std::string path) : path_(std::move(path)) {}
  // The events that were added since the last call. A line that is not whole yet waits for the next call. A malformed one is
  // a data_error that names the file.
  std::vector<Json> next();

 private:
  std::string path_;
  std::uint64_t read_ = 0;  // bytes of whole lines
};

// All ranks' logs; new ranks are found as they come.
class RunLogReader {
 public:
  // data_error when `run_directory` has no logs.
  explicit RunLogReader(const std::string& run_directory);

  std::vector<int> ranks() const;
  // New events by rank, within a rank in their order. Looks for new files first.
  std::vector<std::pair<int, Json>> next();

 private:
  void find_logs();

  std::string folder_;
  std::map<int, LogReader> readers_;
};

}  // namespace longwave
