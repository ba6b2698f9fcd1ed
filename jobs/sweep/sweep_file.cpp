#include "jobs/sweep/sweep_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "jobs/config/config.h"

namespace longwave {
namespace {

constexpr std::size_t most_cells = 1001;  // what Slurm takes in an array unless its administrator allows more

struct Choice {
  std::string name;
  std::vector<std::string> overrides;
};
using Axis = std::vector<Choice>;

Error refuse(const std::string& path, const YAML::Node& node, const std::string& reason) {
  return config_error("{}:{}: {}", path, node.Mark().line + 1, reason);
}

std::string scalar(const std::string& path, const YAML::Node& node, const std::string& what) {
  if (!node.IsScalar() || node.Scalar().empty()) throw refuse(path, node, what + " is one word");
  return node.Scalar();
}

// Names become folders and words of a command line.
std::string plain_name(const std::string& path, const YAML::Node& node, const std::string& what) {
  const std::string name = scalar(path, node, what);
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-'; };
  if (name.front() == '.' || name.front() == '-' || !std::all_of(name.begin(), name.end(), plain)) {
    throw refuse(path, node, fmt::format("{}: \"{}\" may have letters, digits, '.', '_' and '-' only", what, name));
  }
  return name;
}

Choice read_choice(const std::string& path, const YAML::Node& key, const YAML::Node& value) {
  Choice choice{plain_name(path, key, "a choice"), {}};
  if (!value.IsSequence()) throw refuse(path, key, fmt::format("{} needs a list of overrides, [key=value, ...]", choice.name));
  for (const YAML::Node& entry : value) choice.overrides.push_back(scalar(path, entry, "an override"));
  return choice;
}

Axis read_axis(const std::string& path, const YAML::Node& key, const YAML::Node& value) {
  const std::string name = plain_name(path, key, "an axis");
  if (!value.IsMap() || value.size() == 0) {
    throw refuse(path, key, fmt::format("axis {} needs choices, each NAME: [key=value, ...]", name));
  }
  Axis axis;
  for (const auto& entry : value) {
    axis.push_back(read_choice(path, entry.first, entry.second));
    const auto same = [&](const Choice& choice) { return choice.name == axis.back().name; };
    if (std::count_if(axis.begin(), axis.end(), same) > 1) {
      throw refuse(path, entry.first, fmt::format("axis {} has {} twice", name, axis.back().name));
    }
  }
  return axis;
}

void multiply(std::vector<SweepCell>& cells, const Axis& axis) {
  std::vector<SweepCell> product;
  for (const SweepCell& cell : cells) {
    for (const Choice& choice : axis) {
      SweepCell next = cell;
      next.name += (next.name.empty() ? "" : "-") + choice.name;
      next.overrides.insert(next.overrides.end(), choice.overrides.begin(), choice.overrides.end());
      product.push_back(std::move(next));
    }
  }
  cells = std::move(product);
}

YAML::Node parse(const std::string& path) {
  try {
    return YAML::Load(read_file(path));
  } catch (const YAML::ParserException& error) {
    throw config_error("{}:{}: {}", path, error.mark.line + 1, error.msg);
  } catch (const Error& error) {
    throw config_error("{}", error.what());
  }
}

void read_keys(const std::string& path, const YAML::Node& root, Sweep& sweep, std::vector<Axis>& axes) {
  for (const auto& entry : root) {
    const std::string key = scalar(path, entry.first, "a key");
    if (key == "name") {
      sweep.name = plain_name(path, entry.second, "name");
    } else if (key == "dir") {
      sweep.directory = scalar(path, entry.second, "dir");
    } else if (key == "job") {
      sweep.job = scalar(path, entry.second, "job");
    } else if (key == "axes") {
      if (!entry.second.IsMap()) throw refuse(path, entry.first, "axes needs axes, each NAME: {CHOICE: [key=value, ...]}");
      for (const auto& axis : entry.second) axes.push_back(read_axis(path, axis.first, axis.second));
    } else {
      throw refuse(path, entry.first, fmt::format("{}: unknown key; a sweep has name, dir, job and axes", key));
    }
  }
}

// In full: a typing error in a rare cell should not be found after hours.
void check_cell(const std::string& path, const Sweep& sweep, SweepCell& cell) {
  try {
    cell.run_directory = load_config(sweep.job, cell.overrides).run_directory();
  } catch (const Error& error) {
    throw config_error("{}: cell {}: {}", path, cell.name, error.what());
  }
}

}  // namespace

Sweep read_sweep(const std::string& path) {
  const YAML::Node root = parse(path);
  if (!root.IsMap()) throw config_error("{}: a sweep has the keys name, dir, job and axes", path);
  Sweep sweep;
  sweep.directory = "runs";
  std::vector<Axis> axes;
  read_keys(path, root, sweep, axes);
  if (sweep.name.empty()) throw config_error("{}: name is missing: the folder of the runs", path);
  if (sweep.job.empty()) throw config_error("{}: job is missing: the job file that the cells vary", path);
  if (axes.empty()) throw config_error("{}: axes is missing: what the cells vary", path);
  sweep.directory += "/" + sweep.name;
  sweep.cells.emplace_back();
  for (const Axis& axis : axes) {
    multiply(sweep.cells, axis);
    if (sweep.cells.size() > most_cells) throw config_error("{}: more than {} cells; split the sweep", path, most_cells);
  }
  for (SweepCell& cell : sweep.cells) {
    cell.overrides.push_back("run.dir=" + sweep.directory);
    cell.overrides.push_back("run.name=" + cell.name);
    check_cell(path, sweep, cell);
  }
  return sweep;
}

}  // namespace longwave
