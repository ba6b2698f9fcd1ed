#include "jobs/checkpoint/saved_config.h"

#include <algorithm>
#include <map>

#include "jobs/config/schema.h"

namespace longwave {
namespace {

bool may_change(const std::string& key) {
  // These make the samples that the model is trained on.
  if (key == "evaluate.passkey.train_fraction") return false;
  for (const char* section : {"evaluate.", "logging.", "parallel.", "checkpoint.", "watchdog."}) {
    if (key.starts_with(section)) return true;
  }
  static const std::vector<std::string> keys = {"run.name",   "run.dir",         "run.device",    "run.cuda_graph",
                                                "run.resume", "run.resume_step", "run.init_from", "train.steps",
                                                "train.micro_batch", "train.on_bad_step"};
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

bool is_default(const Config& config, const std::string& key) {
  return std::any_of(config.origins.begin(), config.origins.end(), [&](const Config::Origin& origin) {
    return origin.key == key && origin.source.starts_with("default");
  });
}

void set(Config& config, const std::string& key, const std::string& value) {
  const Setting* setting = find_setting(key);
  if (setting == nullptr) {
    throw config_error("the checkpoint's configuration has a key {}, which this program does not know", key);
  }
  setting->set(config, Value::parse(value, key, "checkpoint"));
}

}  // namespace

ConfigKeys config_keys(const Config& config) {
  ConfigKeys keys;
  for (const Setting& setting : settings()) {
    if (setting.get != nullptr && setting.applies(config)) keys.emplace_back(setting.key, setting.get(config));
  }
  return keys;
}

Config config_from_keys(const ConfigKeys& keys) {
  Config config;
  for (const auto& [key, value] : keys) set(config, key, value);
  return config;
}

void keep_saved_defaults(Config& config, const ConfigKeys& saved) {
  const std::string key = "schedule.warmup";  // a share of train.steps
  if (!is_default(config, key)) return;
  for (const auto& [name, value] : saved) {
    if (name == key) set(config, key, value);
  }
}

void refuse_changes(const Config& config, const ConfigKeys& saved, const std::string& checkpoint) {
  std::map<std::string, std::pair<std::string, std::string>> values;  // saved and now; "" where a key has no say
  for (const auto& [key, value] : saved) values[key].first = value;
  for (const auto& [key, value] : config_keys(config)) values[key].second = value;
  std::string differences;
  for (const auto& [key, pair] : values) {
    const auto& [before, now] = pair;
    if (before == now || may_change(key)) continue;
    const auto shown = [](const std::string& value) { return value.empty() ? "not set" : value; };
    differences += fmt::format("{}{}: {} (was {})", differences.empty() ? "" : ", ", key, shown(now), shown(before));
  }
  if (differences.empty()) return;
  throw config_error("{} was saved with another configuration: {}; change it back, or choose another run.name", checkpoint,
                     differences);
}

}  // namespace longwave
