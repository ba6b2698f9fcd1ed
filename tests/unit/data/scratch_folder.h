// A temporary folder whose files a test writes and reads whole.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/unit/temporary_directory.h"

namespace longwave {

class ScratchFolder : public TemporaryDirectory {
 public:
  std::string path(const std::string& name = "") const { return *this / name; }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
};

}  // namespace longwave
