// What this program is and what it was built with, for provenance.json.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace longwave {

struct BuildInfo {
  std::string version;     // "0.1.0"
  std::string commit;      // as jobs/version.h says it
  std::string build_type;  // "Release"
  std::string compiler;    // "GNU 12.2.0"
  std::vector<std::pair<std::string, std::string>> libraries;  // name and version, as loaded where the library can tell
};

const BuildInfo& build_info();

}  // namespace longwave
