#include "jobs/run_directory/heartbeat.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/base/error.h"
#include "core/base/host.h"
#include "core/base/json.h"
#include "core/base/timestamp.h"

namespace longwave {
namespace {

constexpr std::size_t record_bytes = 512;

std::optional<HeartbeatRecord> read_record(const std::string& path) {
  const Json json = Json::parse(read_file(path), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  HeartbeatRecord record;
  read_fields(json, path, [&](const Json& fields) {
    fields.at("rank").get_to(record.rank);
    fields.at("pid").get_to(record.pid);
    fields.at("host").get_to(record.host);
    fields.at("phase").get_to(record.phase);
    fields.at("step").get_to(record.step);
    fields.at("beat").get_to(record.beat);
    fields.at("time").get_to(record.time);
  });
  return record;
}

}  // namespace

Heartbeat::Heartbeat(const std::string& run_directory, int rank)
    : file_(File::update(fmt::format("{}/heartbeats/rank-{:05}.json", run_directory, rank))) {
  record_.rank = rank;
  record_.pid = ::getpid();
  record_.host = host_name();
  beat("start", 0);
}

void Heartbeat::beat(std::string_view phase, std::int64_t step) {
  Json json;
  json["rank"] = record_.rank;
  json["pid"] = record_.pid;
  json["host"] = record_.host;
  json["phase"] = phase;
  json["step"] = step;
  json["beat"] = ++record_.beat;
  json["time"] = timestamp();
  std::string text = to_line(json);
  LONGWAVE_CHECK(text.size() < record_bytes);
  text.resize(record_bytes - 1, ' ');
  text += '\n';
  file_.write_at(text.data(), text.size(), 0);
}

void clear_heartbeats(const std::string& run_directory) {
  remove_directories(run_directory + "/heartbeats");
  make_directories(run_directory + "/heartbeats");
}

std::vector<HeartbeatRecord> read_heartbeats(const std::string& run_directory) {
  std::vector<HeartbeatRecord> records;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run_directory + "/heartbeats", error)) {
    std::optional<HeartbeatRecord> record;
    for (int tries = 0; tries < 5 && !record; ++tries) record = read_record(entry.path().string());
    if (record) records.push_back(*record);
  }
  std::sort(records.begin(), records.end(), [](const HeartbeatRecord& a, const HeartbeatRecord& b) { return a.rank < b.rank; });
  return records;
}

}  // namespace longwave
