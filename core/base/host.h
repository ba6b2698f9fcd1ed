// The name of this machine, as messages, logs and locks give it.
#pragma once

#include <string>

namespace longwave {

const std::string& host_name();

}  // namespace longwave
