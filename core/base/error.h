// Errors that reach a person. Every failure the program can explain is an `Error`: one line that says what was wrong,
// where, and what to do, and the exit code of the README's table. Anything else that escapes is a bug of ours (70).
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <utility>

namespace longwave {

// The exit codes of `longwave`. Slurm scripts requeue on `requeue` and `lost` only.
enum class ExitCode : int {
  done = 0,
  data = 65,           // a data or weights file is missing, foreign, truncated or corrupted
  lost = 69,           // a rank, node or device was lost
  bug = 70,            // an invariant of ours does not hold
  io = 74,             // the file system refused: full, read-only, no permission
  requeue = 75,        // stopped on request with what it needs to go on
  bad_step = 76,       // stopped by train.on_bad_step
  configuration = 78,  // the configuration or the command line is wrong
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

template <class... Args>
[[nodiscard]] Error config_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::configuration, fmt::format(format, std::forward<Args>(args)...)};
}

template <class... Args>
[[nodiscard]] Error data_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::data, fmt::format(format, std::forward<Args>(args)...)};
}

template <class... Args>
[[nodiscard]] Error io_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::io, fmt::format(format, std::forward<Args>(args)...)};
}

// "open(runs/a/status.json): No space left on device; free some space (core/base/file.cpp:41)": the call, its subject,
// errno as text, and a remedy for the cases users meet.
[[nodiscard]] Error system_error(const char* call, const std::string& subject, int error_number, const char* file, int line);

// Throws unless `condition` holds: for invariants of ours, never for what a user can cause.
[[noreturn]] void fail_check(const char* condition, const char* file, int line, const std::string& detail);

}  // namespace longwave

#define LONGWAVE_CHECK(condition, ...)                                                                      \
  do {                                                                                                      \
    if (!(condition)) [[unlikely]]                                                                          \
      ::longwave::fail_check(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__));                \
  } while (false)

// For a POSIX call that returns a negative value on failure and sets errno; evaluates to its result.
#define LONGWAVE_SYSTEM(call_name, subject, expression)                                                     \
  [&]() {                                                                                                   \
    auto longwave_result = (expression);                                                                    \
    if (longwave_result < 0) throw ::longwave::system_error(call_name, (subject), errno, __FILE__, __LINE__); \
    return longwave_result;                                                                                 \
  }()
