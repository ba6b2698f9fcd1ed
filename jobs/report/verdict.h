// What the runs showed, in plain sentences made from their numbers.
#pragma once

#include <string>
#include <vector>

#include "jobs/report/run_summary.h"

namespace longwave {

// "Three transformers of 3.2 M parameters (6 layers of width 192, ...), trained on 4.6 M tokens each ...".
std::string what_was_trained(const std::vector<RunSummary>& runs);

// One sentence each: unfinished runs, perplexity past the training length, passkey past the training length.
std::vector<std::string> verdict(const std::vector<RunSummary>& runs);

// The short table a terminal shows after a job: a row a run.
std::string summary_table(const std::vector<RunSummary>& runs);

// Evaluated lengths as multiples of each run's own training length, of perplexity and passkey, ascending.
std::vector<double> perplexity_multiples(const std::vector<RunSummary>& runs);
std::vector<double> passkey_multiples(const std::vector<RunSummary>& runs);
// The length that is `multiple` times the training length of `run`.
std::int64_t length_at(const RunSummary& run, double multiple);

}  // namespace longwave
