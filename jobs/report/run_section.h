// The part of a report about one run alone: how it ended, where it ran, its files, its ranks and its configuration.
#pragma once

#include <string>

#include "jobs/report/palette.h"
#include "jobs/report/run_summary.h"

namespace longwave {

// HTML; links are relative to the folder of `output`, so that report and runs can be moved together.
std::string run_section(const RunSummary& run, const RunStyle& style, const std::string& output);

}  // namespace longwave
