// metrics.jsonl: one line a logged step, by rank 0. Lines are ordered by "step". After a resume the file goes on without a
// step missing or repeated: it is cut back to the step resumed from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace longwave {

class MetricsLog {
 public:
  explicit MetricsLog(const std::string& run_directory);

  void append(const Json& line);  // holds an integer "step"; on the file system when it returns, so a kill loses nothing
  void truncate_after(std::int64_t step);  // removes the lines of later steps, durably
  void sync() { lines_.sync(); }  // before a checkpoint is committed: the lines up to it must survive a power failure

 private:
  JsonLines lines_;
};

// Empty when there are none yet; a torn last line is left out.
std::vector<Json> read_metrics(const std::string& run_directory);

}  // namespace longwave
