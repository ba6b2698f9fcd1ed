// An advisory lock on one byte of a file, bound to the open file: freed with the object, or by the kernel when the process
// dies. Works across nodes where the file system carries locks between them; where it has none, `try_lock` succeeds without
// protection and says so.
#pragma once

#include <cstdint>

#include "core/base/file.h"

namespace longwave {

class ByteLock {
 public:
  // The bytes of a run directory's file `lock`.
  static constexpr std::int64_t run_byte = std::int64_t{1} << 32;  // behind any content
  static constexpr std::int64_t status_byte = run_byte + 1;

  // `file` is open for writing. Does not wait.
  static ByteLock try_lock(File file, std::int64_t byte);

  bool held() const { return held_; }            // false: another process has it
  bool is_supported() const { return supported_; }
  File& file() { return file_; }

 private:
  ByteLock(File file, bool held, bool supported) : file_(std::move(file)), held_(held), supported_(supported) {}
  File file_;
  bool held_;
  bool supported_;
};

}  // namespace longwave
