#include "jobs/run_directory/provenance.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/timestamp.h"
#include "jobs/run_directory/build_info.h"

namespace longwave {
namespace {

std::string provenance_path(const std::string& run_directory) { return run_directory + "/provenance.json"; }

// What the kernel calls the processor of rank 0's host.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown";
}

// The job as Slurm names it; null outside of Slurm.
Json slurm_job() {
  constexpr const char* variables[][2] = {
      {"job_id", "SLURM_JOB_ID"},           {"array_job_id", "SLURM_ARRAY_JOB_ID"}, {"array_task_id", "SLURM_ARRAY_TASK_ID"},
      {"restarts", "SLURM_RESTART_COUNT"},  {"job_name", "SLURM_JOB_NAME"},         {"nodes", "SLURM_JOB_NODELIST"},
      {"partition", "SLURM_JOB_PARTITION"}, {"cluster", "SLURM_CLUSTER_NAME"},
  };
  Json job;
  for (const auto& [key, variable] : variables) {
    if (const char* value = std::getenv(variable)) job[key] = value;
  }
  return job;
}

Json describe(int attempt, const RunFacts& facts) {
  const BuildInfo& build = build_info();
  std::vector<std::string> hosts;
  for (const std::string& host : facts.hosts) {
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  Json json;
  json["attempt"] = attempt;
  json["time"] = timestamp();
  json["version"] = build.version;
  json["commit"] = build.commit;
  json["build"] = {{"type", build.build_type}, {"compiler", build.compiler}};
  for (const auto& [library, version] : build.libraries) json["libraries"][library] = version;
  json["command"] = facts.command_line;
  json["directory"] = std::filesystem::current_path().string();
  json["ranks"] = facts.hosts.size();
  json["hosts"] = hosts;
  json["mesh"] = {{"data", facts.data}, {"tensor", facts.tensor}};
  json["device"] = facts.device;
  json["processor"] = processor();
  json["precision"] = facts.precision;
  json["slurm"] = slurm_job();
  return json;
}

}  // namespace

void append_provenance(const std::string& run_directory, int attempt, const RunFacts& facts) {
  const std::string path = provenance_path(run_directory);
  Json attempts = Json::array();
  if (std::filesystem::exists(path)) {
    read_fields(read_json(path), path, [&](const Json& before) { attempts = before.at("attempts"); });
  }
  Json latest = describe(attempt, facts);
  attempts.push_back(latest);
  latest["attempts"] = std::move(attempts);
  write_json_atomically(path, latest);
}

Json read_provenance(const std::string& run_directory) { return read_json(provenance_path(run_directory)); }

}  // namespace longwave
