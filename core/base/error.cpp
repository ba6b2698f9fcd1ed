#include "core/base/error.h"

#include <cstring>

namespace longwave {
namespace {

const char* remedy(int error_number) {
  switch (error_number) {
    case ENOSPC: return "; free some space or choose another run.dir";
    case EDQUOT: return "; the quota is used up";
    case EROFS: return "; the file system is read-only";
    case EACCES:
    case EPERM: return "; check the permissions";
    case EFBIG: return "; the file size limit (ulimit -f) is reached";
    case EMFILE:
    case ENFILE: return "; raise the limit of open files (ulimit -n)";
    case ENOMEM: return "; not enough memory";
    default: return "";
  }
}

}  // namespace

Error system_error(const char* call, const std::string& subject, int error_number, const char* file, int line) {
  // A missing or unreadable input is reported by its reader as bad data; what arrives here is the file system's refusal.
  return {ExitCode::io, fmt::format("{}({}): {}{} ({}:{})", call, subject, std::strerror(error_number),
                                    remedy(error_number), file, line)};
}

void fail_check(const char* condition, const char* file, int line, const std::string& detail) {
  throw Error(ExitCode::bug, fmt::format("internal error: {} does not hold{}{} ({}:{})", condition,
                                         detail.empty() ? "" : ": ", detail, file, line));
}

}  // namespace longwave
