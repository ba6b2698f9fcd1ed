#include "core/base/host.h"

#include <unistd.h>

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

}  // namespace longwave
