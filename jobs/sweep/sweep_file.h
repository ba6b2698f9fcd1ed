// A grid of runs: one job file and axes of choices, each choice a name and the overrides it stands for.
//
//   name: cpu-grid                    # runs go to runs/cpu-grid/CELL
//   dir: runs                         # default
//   job: jobs/cpu-grid/base.yaml
//   axes:                             # the first varies slowest
//     scale:
//       tiny: [model.layers=2, model.width=64, model.heads=2]
//       small: [model.layers=4, model.width=128, model.heads=4]
//     position:
//       fope: [position.kind=fope]
//       rope: [position.kind=rope]
//     seed:
//       s1: [run.seed=1]
//
// A cell takes a choice of every axis: "tiny-fope-s1". Its number is the task of a Slurm job array.
#pragma once

#include <string>
#include <vector>

namespace longwave {

struct SweepCell {
  std::string name;
  std::vector<std::string> overrides;  // with run.name and run.dir
  std::string run_directory;
};

struct Sweep {
  std::string name;
  std::string directory;  // where the cells' run directories are
  std::string job;        // path of the job file
  std::vector<SweepCell> cells;
};

// Loads every cell's configuration too, so that a sweep is refused as a whole before any of it is submitted. Throws
// config_error naming file and line, or the cell.
Sweep read_sweep(const std::string& path);

}  // namespace longwave
