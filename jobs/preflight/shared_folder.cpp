// Whether all nodes see the same folder, as checkpoints need: a file made on one is there on all, and so is a rename.
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/base/file.h"
#include "jobs/preflight/node_report.h"
#include "jobs/report/format.h"
#include "parallel/agreement.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

constexpr auto patience = std::chrono::seconds(15);  // network file systems show another node's files late
constexpr std::size_t write_bytes = 32 << 20;

bool appears(const std::string& path) {
  const auto limit = std::chrono::steady_clock::now() + patience;
  std::error_code ignored;
  while (!fs::exists(path, ignored)) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return true;
}

// A failure of this node is a finding about it, and the others go on.
void attempt(NodeReport& report, const std::function<void()>& work) {
  if (const Failure failure = capture(work)) report.problems.push_back(failure->what());
}

std::string name_of(const std::string& folder, int node) { return fmt::format("{}/node-{:05}", folder, node); }

void measure_writing(const std::string& path, NodeReport& report) {
  const std::string block(1 << 20, 'x');
  const auto start = std::chrono::steady_clock::now();
  File file = File::create(path);
  for (std::size_t at = 0; at < write_bytes; at += block.size()) file.write_at(block.data(), block.size(), at);
  file.sync();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  report.write_rate = static_cast<double>(write_bytes) / elapsed.count();
  file.close();
  remove_file(path);
}

}  // namespace

void check_shared_folder(Communicator& leaders, const std::string& folder, double space_wanted, NodeReport& report) {
  // Made by one node, and named by it, so that a node with a folder of its own by the same name is found out.
  std::string meeting;
  together(leaders, [&] {
    if (leaders.rank() != 0) return;
    make_directories(folder);
    meeting = fmt::format("{}/preflight-{}", folder, std::chrono::system_clock::now().time_since_epoch().count());
    make_directories(meeting);
  });
  meeting = broadcast_text(leaders, meeting, 0);

  const bool shared = appears(meeting);
  if (!shared) {
    report.problems.push_back(fmt::format("does not share {}: a folder made there on the first node is not seen", folder));
  } else {
    attempt(report, [&] { write_file_atomically(name_of(meeting, leaders.rank()), report.host); });
  }
  leaders.barrier();
  if (shared && !appears(name_of(meeting, 0))) report.problems.push_back("does not see a file made on the first node");
  leaders.barrier();
  if (leaders.rank() == 0) attempt(report, [&] { fs::rename(name_of(meeting, 0), meeting + "/renamed"); });
  leaders.barrier();
  if (shared && !appears(meeting + "/renamed")) report.problems.push_back("does not see a file renamed on the first node");
  if (shared) {
    attempt(report, [&] {
      report.shared_space = static_cast<double>(free_bytes(meeting));
      if (report.shared_space < space_wanted) {
        report.problems.push_back(fmt::format("only {}B free in {}", show_count(report.shared_space), folder));
      } else {
        measure_writing(name_of(meeting, leaders.rank()) + ".data", report);
      }
    });
  }
  leaders.barrier();
  if (leaders.rank() == 0) remove_directories(meeting);
}

}  // namespace longwave
