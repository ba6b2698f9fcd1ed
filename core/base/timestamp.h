// Times as people and other programs read them: UTC, ISO 8601, milliseconds, "2026-03-01T12:00:00.123Z". They sort as text.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace longwave {

std::string timestamp(std::chrono::system_clock::time_point time = std::chrono::system_clock::now());
std::optional<std::chrono::system_clock::time_point> parse_timestamp(const std::string& text);  // of that form only

}  // namespace longwave
