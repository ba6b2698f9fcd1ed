// `longwave evaluate RUN`: perplexity by length and passkey retrieval of a trained run, again or with other settings.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"

namespace longwave {

struct EvaluateArguments {
  std::string run;                    // run directory
  std::vector<std::string> overrides;
  std::vector<std::int64_t> lengths;  // empty: as configured
  std::vector<std::int64_t> passkey;  // empty: as configured
  std::string output;                 // empty: RUN/eval
};

// Alone or under mpirun; any number of ranks, whatever the run was trained on.
ExitCode run_evaluate(const EvaluateArguments& arguments);

}  // namespace longwave
