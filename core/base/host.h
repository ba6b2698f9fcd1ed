// This machine: its name, as messages, logs and locks give it, and where it keeps what is not to last.
#pragma once

#include <string>

namespace longwave {

const std::string& host_name();

// The folder that TMPDIR names, else /tmp.
std::string temporary_folder();

}  // namespace longwave
