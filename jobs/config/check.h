// Combinations of settings that cannot work, found before anything is allocated or written.
#pragma once

#include "jobs/config/config.h"

namespace longwave {

// Throws config_error. Whatever does not depend on the number of ranks or on the data.
void check_config(const Config& config);

// The most ranks, of up to `most`, that the configuration can be trained on: whole replicas of the model among which train.batch
// divides evenly. 0: on no number. For a job that has fewer nodes than it began with.
std::int64_t most_fitting_ranks(const Config& config, std::int64_t most);

}  // namespace longwave
