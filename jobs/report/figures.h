// The report's plots: what is drawn from which numbers.
#pragma once

#include <string>
#include <vector>

#include "jobs/report/gnuplot.h"
#include "jobs/report/palette.h"
#include "jobs/report/run_summary.h"

namespace longwave {

struct Figure {
  std::string title;
  std::string caption;  // how to read it
  Plot plot;
};

// Each gives only the figures for which some run has numbers.
std::vector<Figure> training_figures(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles);
std::vector<Figure> length_figures(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles);
std::vector<Figure> passkey_figures(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles);

}  // namespace longwave
