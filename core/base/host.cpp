#include "core/base/host.h"

#include <unistd.h>

#include <cstdlib>

#include "core/base/error.h"

namespace longwave {

const std::string& host_name() {
  static const std::string name = [] {
    char text[256] = {};
    LONGWAVE_SYSTEM("gethostname", "this host", ::gethostname(text, sizeof text - 1));
    return std::string(text);
  }();
  return name;
}

std::string temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

}  // namespace longwave
