// Combinations of settings that cannot work, found before anything is allocated or written.
#pragma once

#include "jobs/config/config.h"

namespace longwave {

// Throws config_error. Whatever does not depend on the number of ranks or on the data.
void check_config(const Config& config);

}  // namespace longwave
