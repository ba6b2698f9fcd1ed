// Runs that differ in their seed alone, as one: a reader of a grid compares what was chosen, not what was drawn.
#pragma once

#include <functional>
#include <vector>

#include "jobs/report/run_summary.h"

namespace longwave {

// Finished runs of the same configuration but for run.seed, run.name and run.dir become one, in the place of the first, with the
// means of their numbers and themselves as `seeds`. Other runs stay as they are.
std::vector<RunSummary> average_seeds(const std::vector<RunSummary>& runs);

using Measure = std::function<double(const RunSummary&)>;

// Of the run itself where it is no average.
double mean_over_seeds(const RunSummary& run, const Measure& measure);
// Standard deviation, of a sample; not_measured for fewer than two seeds.
double spread_over_seeds(const RunSummary& run, const Measure& measure);

}  // namespace longwave
