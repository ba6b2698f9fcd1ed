// metrics.jsonl: one line a logged step, by rank 0. Lines are ordered by "step". After a resume the file goes on without a
// step missing or repeated: it is cut back to the step resumed from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "jobs/run_directory/tensorboard_log.h"

namespace longwave {

class MetricsLog {
 public:
  explicit MetricsLog(const std::string& run_directory);

  void append(const Json& line);  // holds an integer "step"; on the file system when it returns, so a kill loses nothing
  // Later lines go to TensorBoard event files as well.
  void mirror_to_tensorboard(const std::string& run_directory, int attempt) { tensorboard_.emplace(run_directory, attempt); }
  void truncate_after(std::int64_t step);  // removes the lines of later steps, durably
  void sync() { lines_.sync(); }  // before a checkpoint is committed: the lines up to it must survive a power failure

 private:
  JsonLines lines_;
  std::optional<TensorboardLog> tensorboard_;
};

// Empty when there are none yet; a torn last line is left out.
std::vector<Json> read_metrics(const std::string& run_directory);

}  // namespace longwave
