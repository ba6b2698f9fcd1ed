#include "jobs/config/setting_types.h"

#include <string>
#include <vector>

namespace longwave {

std::string written_text(const std::string& text) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+";
  // A leading letter or path character and none that YAML gives a meaning: reads back as the same word.
  const bool is_plain = !text.empty() && text.find_first_not_of(std::string(plain) + "-") == std::string::npos &&
                        text[0] != '-' && text != "null" && text != "Null" && text != "NULL";
  if (is_plain) return text;
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') quoted += '\\';
    if (static_cast<unsigned char>(letter) < 32) {
      quoted += fmt::format("\\x{:02x}", letter);
    } else {
      quoted += letter;
    }
  }
  return quoted + "\"";
}

std::string one_of(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

DataSource read_source(const Value& value, bool weighted) {
  DataSource source;
  if (!value.is_map()) {
    source.path = value.text();
  } else {
    std::vector<std::string> names = {"path"};
    if (weighted) names.emplace_back("weight");
    for (const Value& entry : value.entries()) {
      const std::string name = entry.key().substr(value.key().size() + 1);
      if (name == "path") {
        source.path = entry.text();
      } else if (weighted && name == "weight") {
        source.weight = read_number<double>(entry, {.low = 0, .above_low = true});
      } else {
        throw entry.refuse("unknown key" + suggest_word(name, names));
      }
    }
  }
  if (source.path.empty()) throw value.refuse("a source needs a path");
  return source;
}

}  // namespace longwave
