// logs/rank-NNNNN.jsonl: what a rank did, one line an event: {"time", "level", "rank", "host", "step", "phase", "event", ...}.
// Every rank writes its own; an event is in the file when the call returns. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace longwave {

enum class LogLevel { debug, info, warning, error };

const char* name_of(LogLevel level);

class RankLog {
 public:
  // After rank 0 made the run directory. Goes on where an earlier attempt ended. Events below `lowest` are dropped.
  RankLog(const std::string& run_directory, int rank, LogLevel lowest = LogLevel::info);

  // What the following events are about.
  void at(std::int64_t step, std::string_view phase);

  // `event` is a word ("start", "step", "save", "signal", ...), `fields` an object with what more there is to say, such as
  // {"seconds", 1.5} or {"message", "..."}.
  void event(LogLevel level, std::string_view event, const Json& fields = {});
  void debug(std::string_view name, const Json& fields = {}) { event(LogLevel::debug, name, fields); }
  void info(std::string_view name, const Json& fields = {}) { event(LogLevel::info, name, fields); }
  void warning(std::string_view name, const Json& fields = {}) { event(LogLevel::warning, name, fields); }
  void error(std::string_view name, const Json& fields = {}) { event(LogLevel::error, name, fields); }

 private:
  std::mutex mutex_;
  JsonLines lines_;
  int rank_;
  LogLevel lowest_;
  std::int64_t step_ = 0;
  std::string phase_ = "start";
};

std::vector<Json> read_rank_log(const std::string& run_directory, int rank);  // empty when there is none

}  // namespace longwave
