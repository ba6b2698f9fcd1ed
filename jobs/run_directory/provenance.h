// provenance.json: what made a run: program, machine, mesh and command, of the latest attempt at the top and of every attempt
// under "attempts", each with its Slurm job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace longwave {

struct RunFacts {
  std::vector<std::string> command_line;
  std::vector<std::string> hosts;  // of each rank, in their order
  std::int64_t data = 1;           // the mesh
  std::int64_t tensor = 1;
  std::string device;              // "cpu (avx512_bf16)", "cuda (NVIDIA H200)"
  std::string precision;           // as chosen: "bf16", "fp32"
};

// Adds an attempt. Rank 0.
void append_provenance(const std::string& run_directory, int attempt, const RunFacts& facts);
Json read_provenance(const std::string& run_directory);  // data_error when missing or malformed

}  // namespace longwave
