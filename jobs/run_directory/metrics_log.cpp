#include "jobs/run_directory/metrics_log.h"

#include <filesystem>

#include "core/base/error.h"

namespace longwave {
namespace {

std::string metrics_path(const std::string& run_directory) { return run_directory + "/metrics.jsonl"; }

}  // namespace

MetricsLog::MetricsLog(const std::string& run_directory) : lines_(metrics_path(run_directory)) {}

void MetricsLog::append(const Json& line) {
  LONGWAVE_CHECK(line.contains("step") && line["step"].is_number_integer());
  lines_.append(line);
  if (tensorboard_) tensorboard_->append(line);
}

void MetricsLog::truncate_after(std::int64_t step) {
  lines_.keep_while([&](const Json& line) {
    bool keep = false;
    read_fields(line, lines_.path(), [&](const Json& fields) { keep = fields.at("step").get<std::int64_t>() <= step; });
    return keep;
  });
}

std::vector<Json> read_metrics(const std::string& run_directory) {
  const std::string path = metrics_path(run_directory);
  if (!std::filesystem::exists(path)) return {};
  return read_json_lines(path);
}

}  // namespace longwave
