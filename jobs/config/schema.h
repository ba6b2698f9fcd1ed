// Every key of a job file, once. Reading, checking ranges, suggesting the nearest key, writing config.yaml and the
// reference in jobs/README.md are loops over this table.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jobs/config/config.h"
#include "jobs/config/value.h"

namespace longwave {

struct Setting {
  std::string key;       // "model.heads"
  std::string type;      // for people: "integer, at least 1"
  std::string standard;  // the default, as YAML or in words; "required"
  std::string meaning;
  std::function<void(Config&, const Value&)> set;  // throws config_error
  std::function<std::string(const Config&)> get;   // as YAML on one line; empty: not written back
  // When this key has no say under another key's value: that key's name and value, such as "position.kind: rope".
  std::string (*idle_under)(const Config&) = nullptr;

  bool applies(const Config& config) const { return idle_under == nullptr || idle_under(config).empty(); }
};

const std::vector<Setting>& settings();
const Setting* find_setting(std::string_view key);
bool is_section(std::string_view name);  // "model", "evaluate.passkey"

// A name for several values at once; a key given explicitly wins over it.
struct Preset {
  std::string key;                                          // "model.preset" or "position.kind"
  std::string name;                                         // "60m"
  std::vector<std::pair<std::string, std::string>> values;  // key and YAML
};

const Preset* find_preset(std::string_view key, std::string_view name);

// "; did you mean model.heads", or what there is to choose from when nothing is near.
std::string suggest_key(const std::string& unknown);
// Likewise for a word out of `words`.
std::string suggest_word(const std::string& unknown, const std::vector<std::string>& words);

}  // namespace longwave
