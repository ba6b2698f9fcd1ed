// How fast this machine trains a model, found by training it for about two seconds: random tokens, micro-steps of the real
// Transformer on the real Backend, and one optimizer update. Writes nothing.
#pragma once

#include <cstdint>
#include <string>

#include "jobs/config/config.h"

namespace longwave {

struct Calibration {
  double seconds_per_step = 0;       // forward, backward and update of a rank; communication is not in it
  double tokens_per_second = 0;      // of all ranks
  double operations_per_second = 0;  // of one rank's micro-steps, counted as Transformer counts them
  int ranks_at_once = 1;             // that computed side by side, as ranks on one node do
  std::int64_t sequences = 0;        // of the micro-batches measured; fewer than train.micro_batch where that takes too long
};

// `config` is finished. As many ranks as this process has processors are measured side by side, at most all of them.
Calibration calibrate(const Config& config);

// How many of the job's ranks this machine's processors would hold.
int ranks_on_this_node(const Config& config);

}  // namespace longwave
