#include "jobs/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

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

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string format_count(double value) {
  if (value < 1e3) return fmt::format("{:.0f}", value);
  if (value < 1e6) return fmt::format("{:.1f}k", value / 1e3);
  if (value < 1e9) return fmt::format("{:.1f}M", value / 1e6);
  return fmt::format("{:.1f}G", value / 1e9);
}

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
  const std::string line = last ? fmt::format("{}  done in {}", text, format_duration(elapsed))
                                : fmt::format("{}  {:.0f} %  {} left", text, 100.0 * static_cast<double>(done) / static_cast<double>(total_),
                                              format_duration(left));
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
