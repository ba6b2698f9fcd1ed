#include "jobs/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "jobs/report/format.h"

namespace longwave {
namespace {

std::size_t terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

// mpirun gives its ranks a pseudo-terminal whatever its own output is, so under it only the one who started it can tell.
bool writes_to_terminal() {
  if (std::getenv("LONGWAVE_TERMINAL") != nullptr) return true;
  return std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr && isatty(STDOUT_FILENO) == 1;
}

}  // namespace

Progress::Progress(bool enabled) : enabled_(enabled), terminal_(writes_to_terminal()) {}

void Progress::begin_phase(std::int64_t done, std::int64_t total) {
  first_ = done;
  total_ = total;
  start_ = Clock::now();
  last_ = start_;
}

void Progress::update(std::int64_t done, const std::string& text, bool log) {
  if (!enabled_) return;
  const Clock::time_point now = Clock::now();
  const bool last = done >= total_;
  if (terminal_ ? now - last_ < std::chrono::milliseconds(100) && !last && !log : !log && !last) return;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const std::int64_t since = done - first_;
  const double left = since > 0 ? elapsed / static_cast<double>(since) * static_cast<double>(total_ - done) : 0;
  const std::string line = last ? fmt::format("{}  done in {}", text, show_duration(elapsed))
                                : fmt::format("{}  {:.0f} %  {} left", text, 100.0 * static_cast<double>(done) / static_cast<double>(total_),
                                              show_duration(left));
  if (terminal_) {
    fmt::print("\r\033[K{}", line.substr(0, terminal_columns() - 1));
    line_open_ = true;
    if (last) end_line();
  } else {
    fmt::print("{}\n", line);
  }
  std::fflush(stdout);
}

void Progress::say(const std::string& line) {
  if (!enabled_) return;
  if (line_open_) fmt::print("\r\033[K");
  line_open_ = false;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void Progress::end_line() {
  if (!line_open_) return;
  fmt::print("\n");
  std::fflush(stdout);
  line_open_ = false;
}

}  // namespace longwave
