// From a job file and the command line to a Config: collect what was given for each key, put presets under it, apply all
// of it in the table's order, then fill what follows from other keys.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "jobs/config/check.h"
#include "jobs/config/config.h"
#include "jobs/config/schema.h"
#include "jobs/config/value.h"

namespace longwave {
namespace {

using Given = std::map<std::string, Value>;

std::string read_job_file(const std::string& path) {
  if (std::filesystem::is_directory(path)) throw config_error("{}: is a folder, not a job file", path);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) {
    throw config_error("{}: cannot be read: {}", path, errno != 0 ? std::strerror(errno) : "it is empty");
  }
  return text.str();
}

YAML::Node parse_job_file(const std::string& path) {
  try {
    YAML::Node root = YAML::Load(read_job_file(path));
    if (!root.IsMap()) throw config_error("{}: must hold sections such as model: and train:", path);
    return root;
  } catch (const YAML::Exception& error) {
    throw config_error("{}: is not YAML: {}", source_at(path, error.mark), error.msg);
  }
}

// Adds every key below `value`, a section or the whole file, to `given`.
void collect(const Value& value, Given& given) {
  for (const Value& entry : value.entries()) {
    if (find_setting(entry.key()) != nullptr) {
      if (entry.is_null()) throw entry.refuse("has no value; leave the line out for the default");
      const auto [first, fresh] = given.emplace(entry.key(), entry);
      if (!fresh) throw entry.refuse("given twice, first at " + first->second.source());
    } else if (is_section(entry.key())) {
      if (entry.is_map()) {
        collect(entry, given);
      } else if (!entry.is_null()) {
        throw entry.refuse(fmt::format("is a section of keys, got {}", entry.shown()));
      }
    } else {
      throw entry.refuse("unknown key" + suggest_key(entry.key()));
    }
  }
}

// "dotted.key=value" replaces what the file says; "key=null" forgets it; "section={...}" is several at once.
void override_with(const std::string& assignment, Given& given) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw config_error("command line: '{}' is not key=value, such as position.kind=rope", assignment);
  }
  const std::string key = assignment.substr(0, equals);
  const Value value = Value::parse(assignment.substr(equals + 1), key, "command line");
  if (find_setting(key) != nullptr) {
    given.erase(key);
    if (!value.is_null()) given.emplace(key, value);
    return;
  }
  if (!is_section(key)) throw value.refuse("unknown key" + suggest_key(key));
  Given several;
  collect(value, several);
  for (const auto& [name, entry] : several) given.insert_or_assign(name, entry);
}

// Replaces the name of a preset by the values it stands for, wherever they are not given.
void expand_preset(const std::string& key, Given& given) {
  const auto named = given.find(key);
  if (named == given.end() || named->second.is_list() || named->second.is_map()) return;
  const Preset* preset = find_preset(key, named->second.text());
  if (preset == nullptr) return;
  const std::string source = fmt::format("preset {} ({})", preset->name, named->second.source());
  for (const auto& [name, text] : preset->values) {
    Value value = Value::parse(text, name, source);
    if (name == key) {
      given.insert_or_assign(name, value);
    } else {
      given.emplace(name, value);
    }
  }
}

bool from_preset(const Value& value) { return value.source().rfind("preset ", 0) == 0; }

void apply(const Given& given, Config& config, std::map<std::string, std::string>& sources) {
  for (const Setting& setting : settings()) {
    const auto entry = given.find(setting.key);
    if (entry == given.end()) continue;
    const Value& value = entry->second;
    if (!setting.applies(config)) {
      if (from_preset(value)) continue;  // a model's gain, where the run compares it with rope
      throw value.refuse(fmt::format("has no meaning with {}; leave it out, or say {}=null on the command line",
                                     setting.idle_under(config), setting.key));
    }
    setting.set(config, value);
    sources[setting.key] = value.source();
  }
}

void require(const std::string& path, const Given& given) {
  std::string missing;
  for (const Setting& setting : settings()) {
    if (setting.standard == "required" && given.count(setting.key) == 0)
      missing += (missing.empty() ? "" : ", ") + setting.key;
  }
  if (missing.empty()) return;
  const bool sizes = missing.find("model.layers") != std::string::npos;
  throw config_error("{}: missing: {}{}", path, missing, sizes ? " (model.preset gives sizes)" : "");
}

// Defaults that follow from other keys; what was given is left alone.
void derive(const std::string& path, Config& config, std::map<std::string, std::string>& sources) {
  const auto fill = [&](const std::string& key, auto& field, auto value, const char* rule) {
    if (!sources.emplace(key, fmt::format("default ({})", rule)).second) return;
    field = value;
  };
  ModelConfig& model = config.model;
  fill("run.name", config.run.name, std::filesystem::path(path).stem().string(), "file name");
  fill("model.kv_heads", model.kv_heads, model.heads, "heads");
  fill("model.head_dim", model.head_dim, model.width % model.heads == 0 ? model.width / model.heads : 0, "width / heads");
  fill("model.mlp_hidden", model.mlp_hidden, 4 * model.width, "4 * width");
  fill("schedule.warmup", config.schedule.warmup, config.train.steps / 20, "steps / 20");

  std::vector<std::int64_t> lengths;
  for (const std::int64_t doubled : {1, 2, 4, 8, 16, 32}) {
    const std::int64_t length = model.context * doubled / 2;
    if (length >= 2 && (lengths.empty() || length > lengths.back())) lengths.push_back(length);
  }
  fill("evaluate.lengths", config.evaluate.lengths, lengths, "1/2 to 16 x context");
  fill("evaluate.passkey.lengths", config.evaluate.passkey.lengths, config.evaluate.lengths, "evaluate.lengths");
}

}  // namespace

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  Given given;
  collect(Value(parse_job_file(path), "", path + ":1"), given);
  for (const std::string& assignment : overrides) override_with(assignment, given);
  expand_preset("model.preset", given);
  expand_preset("position.kind", given);

  Config config;
  std::map<std::string, std::string> sources;
  apply(given, config, sources);
  require(path, given);
  derive(path, config, sources);
  for (const Setting& setting : settings()) {
    if (setting.get == nullptr || !setting.applies(config)) continue;
    const auto source = sources.find(setting.key);
    config.origins.push_back({setting.key, source == sources.end() ? "default" : source->second});
  }
  check_config(config);
  return config;
}

}  // namespace longwave
