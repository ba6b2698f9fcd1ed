// One event of a rank's log as a line for people:
//
//   2026-03-01 12:00:00.123  step 120  train     step: 10 steps, 1.39 s, data 0.01 s, forward 0.4 s, ...
#pragma once

#include <string>

#include "core/base/json.h"

namespace longwave {

std::string event_text(const Json& event);

}  // namespace longwave
