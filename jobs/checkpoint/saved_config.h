// The configuration as a checkpoint keeps it, key by key, and what may differ from it when a run goes on.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jobs/config/config.h"

namespace longwave {

using ConfigKeys = std::vector<std::pair<std::string, std::string>>;  // dotted key and value, as YAML

ConfigKeys config_keys(const Config& config);
// The keys set on a default Config. Throws config_error on a key that this program does not know.
Config config_from_keys(const ConfigKeys& keys);

// Defaults that follow from a key which may change stay what they were: without this, asking for more steps would ask for
// another warm-up.
void keep_saved_defaults(Config& config, const ConfigKeys& saved);

// Throws config_error naming every key whose value differs from the saved one, except those that may change in a run: how
// long it trains, how it is evaluated, logged, saved and watched, and on what machines.
void refuse_changes(const Config& config, const ConfigKeys& saved, const std::string& checkpoint);

}  // namespace longwave
