// How a run looks in every plot and table: one colour and marker per kind of position, of Okabe and Ito's palette, which
// the colour-blind can tell apart; runs of the same kind differ by their dashes.
#pragma once

#include <string>
#include <vector>

#include "jobs/report/run_summary.h"

namespace longwave {

struct RunStyle {
  std::string color;  // "#rrggbb"
  int marker = 7;     // gnuplot's point type
  int dash = 1;       // gnuplot's dash type
};

// One per run, in the same order.
std::vector<RunStyle> run_styles(const std::vector<RunSummary>& runs);

}  // namespace longwave
