// `longwave preflight FOLDER`: a minute on every node before the hours, under the launcher that the training will use.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "core/base/stop_request.h"
#include "jobs/commands.h"
#include "jobs/device.h"
#include "jobs/preflight/node_report.h"
#include "jobs/report/format.h"
#include "jobs/report/text_table.h"
#include "jobs/run_ranks.h"
#include "parallel/agreement.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/mpi/mpi_environment.h"

namespace longwave {
namespace {

constexpr double gibibyte = 1 << 30;

void compare_software(std::vector<NodeReport>& reports) {
  for (NodeReport& report : reports) {
    if (report.software != reports.front().software) {
      report.problems.push_back(
          fmt::format("runs {}, but {} runs {}", report.software, reports.front().host, reports.front().software));
    }
  }
}

// A line, or where nodes differ one for each.
void print_devices(const std::vector<NodeReport>& reports) {
  const auto as_first = [&](const NodeReport& node) { return node.device == reports.front().device; };
  if (std::all_of(reports.begin(), reports.end(), as_first)) {
    fmt::print("device: {}\n", reports.front().device);
    return;
  }
  for (const NodeReport& node : reports) fmt::print("device of {}: {}\n", node.host, node.device);
}

// Through host memory, and through the GPUs' where there are any.
struct AllReduceRates {
  double host = 0;
  double device = 0;
};

void print_table(const std::vector<NodeReport>& reports, const AllReduceRates& all_reduce) {
  TextTable table({"node", "ranks", "GPUs", "GPU memory", "TFLOP/s", "memory", "clock s", "free /tmp", "free shared",
                   "write GB/s", "slowest pair GB/s", "verdict"});
  for (const NodeReport& node : reports) {
    std::string pair = "-";
    if (node.slowest_partner >= 0) {
      const std::string& partner = reports[static_cast<std::size_t>(node.slowest_partner)].host;
      pair = fmt::format("{:.2f} with {}", node.slowest_pair / 1e9, partner);
    }
    table.add_row({node.host, fmt::format("{}", node.ranks), fmt::format("{}", node.devices),
                   node.devices == 0 ? "-" : show_count(node.device_memory) + "B", fmt::format("{:.2f}", node.matrix_rate / 1e12),
                   show_count(node.memory) + "B", fmt::format("{:+.2f}", node.clock_seconds),
                   show_count(node.temporary_space) + "B", show_count(node.shared_space) + "B",
                   fmt::format("{:.2f}", node.write_rate / 1e9), pair, node.problems.empty() ? "fit" : "UNFIT"});
  }
  fmt::print("{}", table.str());
  fmt::print("software: {}\n", reports.front().software);
  print_devices(reports);
  if (all_reduce.host > 0) fmt::print("all-reduce of all ranks, MPI: {:.2f} GB/s\n", all_reduce.host / 1e9);
  if (all_reduce.device > 0) fmt::print("all-reduce of all ranks, NCCL: {:.2f} GB/s\n", all_reduce.device / 1e9);
}

// The words to paste into the next sbatch.
void print_verdict(const std::vector<NodeReport>& reports, bool& fit) {
  std::vector<std::string> unfit;
  for (const NodeReport& node : reports) {
    for (const std::string& problem : node.problems) fmt::print("{}: {}\n", node.host, problem);
    if (!node.problems.empty()) unfit.push_back(node.host);
  }
  fit = unfit.empty();
  if (fit) {
    fmt::print("preflight: all {} nodes are fit\n", reports.size());
  } else {
    fmt::print("preflight: {} of {} nodes unfit; submit again with\n--exclude={}\n", unfit.size(), reports.size(),
               fmt::join(unfit, ","));
  }
  std::fflush(stdout);
}

std::vector<NodeReport> inspect_nodes(Communicator& leaders, const std::string& folder, double space,
                                      NodeReport& own) {
  together(leaders, [&] {
    inspect_software(own);
    inspect_temporary_space(own);
  });
  compare_clocks(leaders, own);
  check_shared_folder(leaders, folder, space, own);
  measure_pairs(leaders, own);
  std::vector<NodeReport> reports = gather_reports(leaders, own);
  compare_software(reports);
  return reports;
}

ExitCode run_preflight(const std::string& folder, double space) {
  install_stop_handlers();
  MpiEnvironment mpi(nullptr, nullptr);
  const auto control = MpiCommunicator::world();
  return run_ranks(mpi, *control, [&](JobTrace&) {
    NodeReport own;
    own.host = mpi.host();
    own.ranks = mpi.local_size();
    const ChosenDevice device = inspect_devices(mpi, *control, own);
    const auto leaders = control->split(mpi.local_rank() == 0 ? 0 : 1, control->rank());
    std::vector<NodeReport> reports;
    if (mpi.local_rank() == 0) reports = inspect_nodes(*leaders, folder, space, own);
    control->barrier();
    AllReduceRates all_reduce;
    all_reduce.host = measure_all_reduce(*control);
    all_reduce.device = measure_device_all_reduce(*control, *device.backend, own);
    bool fit = true;
    if (control->rank() == 0) {
      print_table(reports, all_reduce);
      print_verdict(reports, fit);
    }
    const std::int64_t unfit = all_reduce_value(*control, static_cast<std::int64_t>(!fit), Reduction::max);
    return unfit == 0 ? ExitCode::done : ExitCode::lost;
  });
}

}  // namespace

void add_preflight_command(CLI::App& app, Command& command) {
  struct Arguments {
    std::string folder = "runs";
    double space = 1;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* preflight =
      app.add_subcommand("preflight", "Check every node before a long run: software, clock, shared folder, space, bandwidth");
  preflight->add_option("FOLDER", arguments->folder, "Where the run directories will be; default: runs");
  preflight->add_option("--space", arguments->space, "GiB that must be free there")->check(CLI::NonNegativeNumber);
  preflight->footer("Under srun --mpi=pmix or mpirun, like the training: slurm/preflight.sbatch. Exit code 69: a node is unfit.");
  preflight->callback([arguments, &command] {
    command.run = [arguments] { return run_preflight(arguments->folder, arguments->space * gibibyte); };
  });
}

}  // namespace longwave
