// A YAML value of a job file or of the command line, and where it stands, so that a refusal leads to it.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace longwave {

class Value {
 public:
  // `source` is what the configuration prints behind a value: "jobs/a.yaml:12", "command line", "preset 60m".
  Value(YAML::Node node, std::string key, std::string source);

  // Parses `text` as YAML; a text that is none is refused.
  static Value parse(const std::string& text, std::string key, std::string source);

  const std::string& key() const { return key_; }  // "evaluate.lengths", or "evaluate.lengths[2]" for an item
  const std::string& source() const { return source_; }
  bool is_null() const { return node_.IsNull(); }
  bool is_list() const { return node_.IsSequence(); }
  bool is_map() const { return node_.IsMap(); }

  // The value as an error would quote it.
  std::string shown() const;
  [[nodiscard]] Error refuse(const std::string& what) const;  // "jobs/a.yaml:12: model.heads: what"

  // Each throws config_error when the value is something else. Numbers are numbers however they are written: 1e-4,
  // "1e-4", 1E-4, .1, +3; an integer may be written 1e6.
  std::string text() const;
  std::int64_t integer() const;
  std::uint64_t natural() const;  // 0 .. 2^64 - 1
  double number() const;
  bool boolean() const;
  std::vector<Value> items() const;
  std::vector<Value> entries() const;  // of a map, keys joined to this one's by a dot; a repeated key is refused

 private:
  YAML::Node node_;
  std::string key_;
  std::string source_;
};

// "jobs/a.yaml:12" for a node of that file.
std::string source_at(const std::string& file, const YAML::Mark& mark);

}  // namespace longwave
