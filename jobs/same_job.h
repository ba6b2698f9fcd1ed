// That all ranks of a job do the same job. Each reads the job file and the data by itself, and where nodes have disks of their
// own one path may lead to unlike files: a model would be trained on a mixture, and nobody would know.
#pragma once

#include <string>

#include "jobs/config/config.h"
#include "jobs/dataset.h"
#include "parallel/communicator.h"

namespace longwave {

// Throws config_error on every rank, naming a setting that differs from rank 0's. `config` is finished; `host` is this rank's.
// Collective.
void refuse_unlike_configs(Communicator& control, const Config& config, const std::string& host);

// Throws data_error on every rank when one has opened other data than rank 0. Collective.
void refuse_unlike_data(Communicator& control, const Dataset& data, const std::string& host);

}  // namespace longwave
