#include "tests/simt/code_lines.h"

#include <backtrace.h>

#include <cstdint>
#include <string_view>

namespace longwave::simt {
namespace {

struct Found {
  std::string text;
};

int take_innermost(void* data, std::uintptr_t, const char* file, int line, const char*) {
  auto& found = *static_cast<Found*>(data);
  if (file == nullptr) return 0;
  found.text = line_of_file(file, line);
  return 1;  // the innermost inlined function is enough
}

void ignore_error(void*, const char*, int) {}

}  // namespace

std::string line_of_file(std::string_view name, int line) {
  for (const std::string_view top : {"core/", "tests/"}) {
    if (const auto at = name.find(top); at != name.npos) name.remove_prefix(at);
  }
  return std::string(name) + ":" + std::to_string(line);
}

std::string line_of_code(const void* address) {
  static backtrace_state* const state = backtrace_create_state(nullptr, 0, ignore_error, nullptr);
  Found found;
  if (state != nullptr) {
    // The address is where the call returns to; the call itself is before it.
    backtrace_pcinfo(state, reinterpret_cast<std::uintptr_t>(address) - 1, take_innermost, ignore_error, &found);
  }
  return found.text.empty() ? "unknown line" : found.text;
}

}  // namespace longwave::simt
