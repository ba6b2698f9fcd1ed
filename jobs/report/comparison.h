// The report's tables across runs, a row a run. The best value of a column is emphasised when there is more than one.
#pragma once

#include <string>
#include <vector>

#include "jobs/report/html.h"
#include "jobs/report/palette.h"
#include "jobs/report/run_summary.h"

namespace longwave {

HtmlTable training_table(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles);
// What the columns mean that need a word, as HTML.
std::string training_table_note(const std::vector<RunSummary>& runs);

// Tables of perplexity by multiple of the training length: all targets, last half, last 64. Empty without results.
std::string perplexity_tables(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles);
std::string passkey_table(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles);
// A map of length by depth for each run that has passkey results, shaded by accuracy. Empty without results.
std::string passkey_maps(const std::vector<RunSummary>& runs, const std::vector<RunStyle>& styles);

// A short piece of a run's line and its marker, for legends: inline SVG.
std::string legend_key(const RunStyle& style);

}  // namespace longwave
