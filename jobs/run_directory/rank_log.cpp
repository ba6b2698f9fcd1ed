#include "jobs/run_directory/rank_log.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/base/host.h"
#include "core/base/timestamp.h"

namespace longwave {
namespace {

std::string log_path(const std::string& run_directory, int rank) {
  return fmt::format("{}/logs/rank-{:05}.jsonl", run_directory, rank);
}

}  // namespace

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warning: return "warning";
    case LogLevel::error: return "error";
  }
  return "?";
}

RankLog::RankLog(const std::string& run_directory, int rank, LogLevel lowest)
    : lines_(log_path(run_directory, rank)), rank_(rank), lowest_(lowest) {}

void RankLog::at(std::int64_t step, std::string_view phase) {
  const std::lock_guard guard(mutex_);
  step_ = step;
  phase_ = phase;
}

void RankLog::event(LogLevel level, std::string_view event, const Json& fields) {
  if (level < lowest_) return;
  const std::lock_guard guard(mutex_);
  Json line;
  line["time"] = timestamp();
  line["level"] = name_of(level);
  line["rank"] = rank_;
  line["host"] = host_name();
  line["step"] = step_;
  line["phase"] = phase_;
  line["event"] = event;
  line.update(fields.is_null() ? Json::object() : fields);
  lines_.append(line);
}

std::vector<Json> read_rank_log(const std::string& run_directory, int rank) {
  const std::string path = log_path(run_directory, rank);
  if (!std::filesystem::exists(path)) return {};
  return read_json_lines(path);
}

}  // namespace longwave
