#include "parallel/process_state.h"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <cstdio>
#include <string>

namespace longwave {

char process_state(int pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return 'X';
  std::FILE* file = std::fopen(fmt::format("/proc/{}/stat", pid).c_str(), "r");
  if (file == nullptr) return 'X';
  char line[512] = {};
  const std::size_t read = std::fread(line, 1, sizeof line - 1, file);
  std::fclose(file);
  // "pid (name) S ...": a name may hold blanks and brackets, so the last bracket counts.
  const std::string text(line, read);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return 'X';
  const char state = text[name_end + 2];
  return state == 'Z' ? 'X' : state;
}

}  // namespace longwave
