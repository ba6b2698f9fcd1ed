// `longwave generate RUN --prompt TEXT`: samples from a trained run, or writes down what it makes of the prompt.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.h"

namespace longwave {

struct GenerateArguments {
  std::string run;
  std::string prompt;
  std::int64_t tokens = 200;
  double temperature = 0.8;   // 0: greedy
  std::int64_t top = 40;      // sample among that many most likely tokens; 0: all
  std::uint64_t seed = 1;
  std::string logits;         // file for the prompt's logits, instead of text; empty: none
};

ExitCode run_generate(const GenerateArguments& arguments);

}  // namespace longwave
