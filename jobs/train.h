// `longwave train CONFIG [key=value ...]`: the main job, from configuration to report.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"

namespace longwave {

struct TrainArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::vector<std::string> command_line;
};

// Returns the exit code; every rank the same unless one was lost.
ExitCode run_train(const TrainArguments& arguments);

}  // namespace longwave
