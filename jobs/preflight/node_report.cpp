#include "jobs/preflight/node_report.h"

#include <sys/sysinfo.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/host.h"
#include "jobs/report/format.h"
#include "jobs/run_directory/build_info.h"
#include "parallel/agreement.h"

namespace longwave {
namespace {

constexpr double temporary_space_wanted = 32 << 20;  // bytes; Open MPI's segments take some MiB a rank

}  // namespace

Json to_json(const NodeReport& report) {
  return {{"host", report.host}, {"software", report.software}, {"device", report.device}, {"devices", report.devices},
          {"device_memory", report.device_memory}, {"ranks", report.ranks}, {"memory", report.memory},
          {"matrix_rate", report.matrix_rate}, {"clock_seconds", report.clock_seconds},
          {"temporary_space", report.temporary_space}, {"shared_space", report.shared_space}, {"write_rate", report.write_rate},
          {"slowest_pair", report.slowest_pair}, {"slowest_partner", report.slowest_partner}, {"problems", report.problems}};
}

NodeReport node_report_from(const Json& json) {
  NodeReport report;
  json.at("host").get_to(report.host);
  json.at("software").get_to(report.software);
  json.at("device").get_to(report.device);
  json.at("devices").get_to(report.devices);
  json.at("device_memory").get_to(report.device_memory);
  json.at("ranks").get_to(report.ranks);
  json.at("memory").get_to(report.memory);
  json.at("matrix_rate").get_to(report.matrix_rate);
  json.at("clock_seconds").get_to(report.clock_seconds);
  json.at("temporary_space").get_to(report.temporary_space);
  json.at("shared_space").get_to(report.shared_space);
  json.at("write_rate").get_to(report.write_rate);
  json.at("slowest_pair").get_to(report.slowest_pair);
  json.at("slowest_partner").get_to(report.slowest_partner);
  json.at("problems").get_to(report.problems);
  return report;
}

std::vector<NodeReport> gather_reports(Communicator& leaders, const NodeReport& own) {
  std::vector<NodeReport> reports;
  for (int node = 0; node < leaders.size(); ++node) {
    const std::string text = broadcast_text(leaders, to_line(to_json(own)), node);
    reports.push_back(node_report_from(parse_json(text, "a node's report")));
  }
  return reports;
}

void inspect_software(NodeReport& report) {
  const BuildInfo& build = build_info();
  report.software = fmt::format("longwave {} ({})", build.version, build.commit);
  for (const auto& [library, version] : build.libraries) report.software += fmt::format(", {} {}", library, version);
  struct sysinfo info {};
  LONGWAVE_SYSTEM("sysinfo", "memory", ::sysinfo(&info));
  report.memory = static_cast<double>(info.totalram) * info.mem_unit;
}

void inspect_temporary_space(NodeReport& report) {
  const std::string folder = temporary_folder();
  try {
    report.temporary_space = static_cast<double>(free_bytes(folder));
  } catch (const Error& error) {
    report.problems.push_back(error.what());
    return;
  }
  if (report.temporary_space < temporary_space_wanted) {
    report.problems.push_back(fmt::format("only {}B free in {}", show_count(report.temporary_space), folder));
  }
}

}  // namespace longwave
