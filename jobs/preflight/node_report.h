// What `longwave preflight` finds out about a node. The first rank of every node speaks for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "jobs/device.h"
#include "parallel/communicator.h"
#include "parallel/mpi/mpi_environment.h"

namespace longwave {

struct NodeReport {
  std::string host;
  std::string software;            // program and libraries, to be the same everywhere
  std::string device;              // what a rank computes on
  int devices = 0;                 // GPUs that the node's ranks compute on
  double device_memory = 0;        // bytes of the smallest of them
  int ranks = 0;                   // on this node
  double memory = 0;               // bytes of the node
  double matrix_rate = 0;          // operations a second of the node's first rank
  double clock_seconds = 0;        // ahead of rank 0's clock
  double temporary_space = 0;      // bytes free where MPI keeps its segments
  double shared_space = 0;         // bytes free in the shared folder
  double write_rate = 0;           // bytes a second to the shared folder, synced
  double slowest_pair = 0;         // bytes a second with the node it is slowest with, both directions together
  int slowest_partner = -1;        // its index among the nodes; -1: there is no other
  std::vector<std::string> problems;  // why the node is unfit; empty when it is fit
};

Json to_json(const NodeReport& report);
NodeReport node_report_from(const Json& json);

// Collective over `leaders`, the first ranks of the nodes: everybody's report, in their order.
std::vector<NodeReport> gather_reports(Communicator& leaders, const NodeReport& own);

// For the node, without communication.
void inspect_software(NodeReport& report);
void inspect_temporary_space(NodeReport& report);

// Collective over `leaders`.
void compare_clocks(Communicator& leaders, NodeReport& report);
void check_shared_folder(Communicator& leaders, const std::string& folder, double space_wanted, NodeReport& report);
void measure_pairs(Communicator& leaders, NodeReport& report);

// Collective over `all`. Chooses this rank's device as training would and fills in what the report says of it; host and ranks
// are in the report already. A node with fewer GPUs than ranks, or with none where others have some, is unfit.
ChosenDevice inspect_devices(MpiEnvironment& mpi, Communicator& all, NodeReport& report);

// Bytes a second of an all-reduce of `floats` by `ranks`, counted as 2 (n-1)/n of the buffer.
double all_reduce_bandwidth(int ranks, std::int64_t floats, double elapsed_seconds);

// Collective over `all`: that, through MPI from host memory, and through NCCL from the GPUs' (0 unless each rank has its own).
double measure_all_reduce(Communicator& all);
double measure_device_all_reduce(Communicator& all, Backend& backend, const NodeReport& report);

}  // namespace longwave
