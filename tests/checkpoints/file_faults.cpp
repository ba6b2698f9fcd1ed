// Preloaded into a run (LD_PRELOAD), makes operations on files under checkpoints/ fail or end the process, so that every
// moment of a save can be the moment of a crash. Operations that change the file system are counted: open for writing, write,
// pwrite, fsync, rename, mkdir and unlink.
//
//   LONGWAVE_FAULT_AT=n      the n-th operation of this process (from 1)
//   LONGWAVE_FAULT_EVERY=n   every n-th
//   LONGWAVE_FAULT_ERROR=e   fails with this errno; without it, the process is killed before the operation
//   LONGWAVE_FAULT_DELAY=s   every operation takes so many seconds longer, which keeps a save going
//   LONGWAVE_FAULT_LOG=path  appends a line an operation
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<long> operations{0};

long number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atol(text);
}

// The function that this file stands in front of.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

using Open = int(const char*, int, ...);
using Close = int(int);
using Write = ssize_t(int, const void*, size_t);
using WriteAt = ssize_t(int, const void*, size_t, off_t);

void log_operation(long count, const char* operation, const char* path) {
  const char* log = std::getenv("LONGWAVE_FAULT_LOG");
  if (log == nullptr) return;
  char line[4600];
  const int length = std::snprintf(line, sizeof line, "%ld %s %s\n", count, operation, path);
  const int file = next<Open>("open")(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file < 0 || next<Write>("write")(file, line, static_cast<size_t>(length)) < 0) std::abort();
  next<Close>("close")(file);
}

// Whether the operation is to fail.
bool fault(const char* operation, const char* path) {
  if (path == nullptr || std::strstr(path, "/checkpoints") == nullptr) return false;
  const long count = ++operations;
  log_operation(count, operation, path);
  if (const long delay = number("LONGWAVE_FAULT_DELAY"); delay > 0) ::sleep(static_cast<unsigned>(delay));
  const long every = number("LONGWAVE_FAULT_EVERY");
  if (count != number("LONGWAVE_FAULT_AT") && (every == 0 || count % every != 0)) return false;
  const long error = number("LONGWAVE_FAULT_ERROR");
  if (error == 0) {
    ::kill(::getpid(), SIGKILL);
    for (;;) ::pause();
  }
  errno = static_cast<int>(error);
  return true;
}

bool fault_at(const char* operation, int descriptor) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  if (length < 0) return false;
  path[length] = 0;
  return fault(operation, path);
}

int open_with(const char* name, const char* path, int flags, mode_t mode) {
  if ((flags & O_ACCMODE) != O_RDONLY && fault("open", path)) return -1;
  return next<Open>(name)(path, flags, mode);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_with("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_with("open64", path, flags, mode);
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
  return fault_at("write", descriptor) ? -1 : next<Write>("write")(descriptor, data, bytes);
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  return fault_at("pwrite", descriptor) ? -1 : next<WriteAt>("pwrite")(descriptor, data, bytes, offset);
}

ssize_t pwrite64(int descriptor, const void* data, size_t bytes, off64_t offset) {
  return fault_at("pwrite", descriptor) ? -1 : next<WriteAt>("pwrite64")(descriptor, data, bytes, offset);
}

int fsync(int descriptor) { return fault_at("fsync", descriptor) ? -1 : next<int(int)>("fsync")(descriptor); }

int rename(const char* from, const char* to) noexcept {
  return fault("rename", to) ? -1 : next<int(const char*, const char*)>("rename")(from, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  return fault("mkdir", path) ? -1 : next<int(const char*, mode_t)>("mkdir")(path, mode);
}

int unlink(const char* path) noexcept { return fault("unlink", path) ? -1 : next<int(const char*)>("unlink")(path); }

// How folders are removed with what is in them.
int unlinkat(int folder, const char* path, int flags) noexcept {
  if (path[0] == '/' ? fault("unlink", path) : fault_at("unlink", folder)) return -1;
  return next<int(int, const char*, int)>("unlinkat")(folder, path, flags);
}

}  // extern "C"
