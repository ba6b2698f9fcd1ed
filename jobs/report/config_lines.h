// A run's config.yaml as the report shows it: the sizes of the model, and every line with the comment that names where its
// value came from. Read leniently: the file may have been written by another version.
#pragma once

#include "jobs/report/run_summary.h"

namespace longwave {

// Fills configuration, sizes and kind. Throws data_error when the file is not YAML or no job file.
void read_config(RunSummary& run);

}  // namespace longwave
