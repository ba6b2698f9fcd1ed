// A job file in a folder of its own, gone with the object.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "jobs/config/config.h"

namespace longwave {

class JobFile {
 public:
  explicit JobFile(const std::string& text) {
    std::string pattern = (std::filesystem::temp_directory_path() / "longwave-config-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    std::ofstream(path()) << text;
  }
  ~JobFile() { std::filesystem::remove_all(folder_); }
  JobFile(const JobFile&) = delete;
  JobFile& operator=(const JobFile&) = delete;

  std::string path() const { return folder_ + "/job.yaml"; }
  std::string at(int line) const { return path() + ":" + std::to_string(line); }

 private:
  std::string folder_;
};

// The smallest job file that says everything it must; six lines.
inline const std::string smallest =
    "model: {layers: 2, width: 64, heads: 4, context: 128}\n"
    "data:\n"
    "  train: books.txt\n"
    "train:\n"
    "  steps: 100\n"
    "  batch: 8\n";

inline Config load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const JobFile file(text);
  return load_config(file.path(), overrides);
}

inline std::string source_of(const Config& config, const std::string& key) {
  for (const Config::Origin& origin : config.origins) {
    if (origin.key == key) return origin.source;
  }
  return "(no such key)";
}

// What loading is refused with: one line with exit code 78. Empty when it is not refused.
inline std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    load(text, overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
    return error.what();
  }
  return "";
}

}  // namespace longwave
