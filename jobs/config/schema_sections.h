// Parts of the table of settings that have files of their own.
#pragma once

#include <vector>

#include "jobs/config/schema.h"

namespace longwave {

std::vector<Setting> position_settings();

}  // namespace longwave
