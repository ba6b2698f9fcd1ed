#include "jobs/report/config_lines.h"

#include <yaml-cpp/yaml.h>

#include <fstream>

#include "core/base/error.h"

namespace longwave {
namespace {

std::string trim(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? std::string() : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Reads the file as it is written: sections by their indentation, and the comment that ends a line as the value's source.
// Sources hold no " # "; a value may. An item of a list keeps the key of the list.
void read_lines(RunSummary& run, const std::string& path) {
  std::ifstream file(path);
  std::vector<std::pair<std::size_t, std::string>> sections;  // indentation and name of those the line is in
  for (std::string line; std::getline(file, line);) {
    const std::size_t indentation = line.find_first_not_of(' ');
    const std::size_t comment = line.rfind(" # ");
    const std::string body = trim(line.substr(0, comment));
    if (body.empty() || body.starts_with("#")) continue;
    while (!sections.empty() && sections.back().first >= indentation) sections.pop_back();
    const std::size_t colon = body.starts_with("- ") ? std::string::npos : body.find(':');
    std::string key;
    for (const auto& section : sections) key += (key.empty() ? "" : ".") + section.second;
    const std::string name = colon == std::string::npos ? "" : body.substr(0, colon);
    const std::string value = colon == std::string::npos ? body : trim(body.substr(colon + 1));
    if (value.empty()) {
      sections.emplace_back(indentation, name);
      continue;
    }
    if (!name.empty()) key += (key.empty() ? "" : ".") + name;
    run.configuration.push_back({key, value, comment == std::string::npos ? "" : trim(line.substr(comment + 3))});
  }
}

template <class Value>
void read(const YAML::Node& section, const char* key, Value& value) {
  if (section.IsMap() && section[key]) value = section[key].template as<Value>(value);
}

void read_sizes(RunSummary& run, const YAML::Node& config) {
  const YAML::Node model = config["model"];
  if (model) {
    read(model, "layers", run.sizes.layers);
    read(model, "width", run.sizes.width);
    read(model, "heads", run.sizes.heads);
    read(model, "kv_heads", run.sizes.kv_heads);
    read(model, "head_dim", run.sizes.head_dim);
    read(model, "mlp_hidden", run.sizes.mlp_hidden);
    read(model, "context", run.sizes.context);
    read(model, "vocabulary", run.sizes.vocabulary);
    read(model, "tied", run.sizes.tied);
    read(model, "qk_norm", run.sizes.qk_norm);
  }
  if (config["position"]) read(config["position"], "kind", run.kind);
}

}  // namespace

void read_config(RunSummary& run) {
  const std::string path = run.directory + "/config.yaml";
  read_lines(run, path);
  try {
    const YAML::Node config = YAML::LoadFile(path);
    if (!config.IsMap()) throw data_error("{}: not a job file", path);
    read_sizes(run, config);
  } catch (const YAML::Exception& problem) {
    throw data_error("{}: {}; the run directory is damaged", path, problem.what());
  }
}

}  // namespace longwave
