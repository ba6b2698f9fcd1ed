#include "jobs/report/format.h"

#include <fmt/format.h>

#include <cmath>

namespace longwave {
namespace {

constexpr const char* dash = "—";

}  // namespace

std::string show_integer(double value) {
  if (!std::isfinite(value)) return dash;
  std::string digits = fmt::format("{:.0f}", std::abs(value));
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return value <= -0.5 ? fmt::format("-{}", digits) : digits;
}

std::string show_count(double value) {
  if (!std::isfinite(value)) return dash;
  struct Unit {
    double size;
    const char* name;
  };
  for (const Unit& unit : {Unit{1e12, " T"}, Unit{1e9, " G"}, Unit{1e6, " M"}, Unit{1e4, " k"}}) {
    if (std::abs(value) < unit.size) continue;
    const double scaled = value / (unit.size == 1e4 ? 1e3 : unit.size);
    return fmt::format("{:.{}f}{}", scaled, scaled < 10 ? 2 : scaled < 100 ? 1 : 0, unit.name);
  }
  return show_integer(value);
}

std::string show_loss(double nats) { return std::isfinite(nats) ? fmt::format("{:.3f}", nats) : dash; }

std::string show_perplexity(double value) {
  if (std::isinf(value)) return "∞";
  if (std::isnan(value)) return dash;
  if (value < 99.95) return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : 1);
  return value < 1e5 ? show_integer(value) : fmt::format("{:.1e}", value);
}

std::string show_percent(double share) {
  if (!std::isfinite(share)) return dash;
  return fmt::format("{:.{}f}%", 100 * share, share > 0 && share < 0.0095 ? 1 : 0);
}

std::string show_duration(double seconds) {
  if (!std::isfinite(seconds)) return dash;
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string show_multiple(double multiple) {
  if (multiple == 0.5) return "½×";
  if (multiple == 0.25) return "¼×";
  return fmt::format("{:.3g}×", multiple);
}

std::string join_words(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace longwave
