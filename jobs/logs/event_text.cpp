#include "jobs/logs/event_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace longwave {
namespace {

std::string plain(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  return to_line(value);
}

std::string plain(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found == event.end() ? "" : plain(*found);
}

// "forward_seconds": 0.5 is "forward 0.5 s"; a message stands for itself.
std::string field_text(const std::string& key, const Json& value) {
  constexpr std::string_view seconds = "seconds";
  if (key == "message") return plain(value);
  if (key == seconds) return plain(value) + " s";
  if (key == "steps") return plain(value) + (value == 1 ? " step" : " steps");
  std::string name = key;
  const bool is_time = name.ends_with("_seconds");
  if (is_time) name.resize(name.size() - seconds.size() - 1);
  std::replace(name.begin(), name.end(), '_', ' ');
  return fmt::format("{} {}{}", name, plain(value), is_time ? " s" : "");
}

bool is_told_anyway(const std::string& key) {
  constexpr std::string_view told[] = {"time", "level", "rank", "host", "step", "phase", "event"};
  return std::find(std::begin(told), std::end(told), key) != std::end(told);
}

}  // namespace

std::string event_text(const Json& event) {
  std::string time = plain(event, "time");
  std::replace(time.begin(), time.end(), 'T', ' ');
  if (!time.empty() && time.back() == 'Z') time.pop_back();
  const std::string level = plain(event, "level");
  std::string line = fmt::format("{}  step {:<8} {:<9} {}{}", time, plain(event, "step"), plain(event, "phase"),
                                 level == "info" || level == "debug" ? "" : level + " ", plain(event, "event"));
  const char* before = ": ";
  for (const auto& [key, value] : event.items()) {
    if (is_told_anyway(key)) continue;
    line += before + field_text(key, value);
    before = ", ";
  }
  // An event is a line, whatever a message holds.
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return line;
}

}  // namespace longwave
