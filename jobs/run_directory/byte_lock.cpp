#include "jobs/run_directory/byte_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "core/base/error.h"

namespace longwave {

ByteLock ByteLock::try_lock(File file, std::int64_t byte) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  // Locks of the open file, not of the process: closing another descriptor of the same file must not free them.
  if (::fcntl(file.descriptor(), F_OFD_SETLK, &range) == 0) return {std::move(file), true, true};
  switch (errno) {
    case EAGAIN:
    case EACCES: return {std::move(file), false, true};
    case ENOLCK:
    case ENOSYS:
    case EOPNOTSUPP: return {std::move(file), true, false};
    default: throw system_error("lock", file.path(), errno, __FILE__, __LINE__);
  }
}

}  // namespace longwave
