#include "core/base/timestamp.h"

#include <fmt/format.h>

#include <ctime>

namespace longwave {

std::string timestamp(std::chrono::system_clock::time_point time) {
  const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(time);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(milliseconds);
  const std::time_t whole = std::chrono::system_clock::to_time_t(seconds);
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec, (milliseconds - seconds).count());
}

std::optional<std::chrono::system_clock::time_point> parse_timestamp(const std::string& text) {
  std::tm parts{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr || *rest != '.' || text.c_str() + text.size() != rest + 5 || rest[4] != 'Z') return std::nullopt;
  int milliseconds = 0;
  for (int i = 1; i <= 3; ++i) {
    if (rest[i] < '0' || rest[i] > '9') return std::nullopt;
    milliseconds = 10 * milliseconds + rest[i] - '0';
  }
  return std::chrono::system_clock::from_time_t(::timegm(&parts)) + std::chrono::milliseconds(milliseconds);
}

}  // namespace longwave
