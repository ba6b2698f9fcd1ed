// Run directories as a training job leaves them, made up for tests: losses that fall, RoPE that breaks down past the
// training length, FoPE that rises gently, ALiBi that stays flat.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace longwave {

// A folder that goes with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct FakeRun {
  std::string name;
  std::string kind = "fope";
  std::string state = "done";
  std::int64_t steps = 1800;
  std::int64_t step = 1800;
  bool evaluated = true;
  bool passkey = true;
  std::int64_t context = 256;
  std::int64_t seed = 1;
};

// Writes parent/run.name and returns its path.
std::string write_fake_run(const std::filesystem::path& parent, const FakeRun& run);

// A line of a rank's log about ten steps of which `work` seconds were its own.
std::string rank_line(int rank, std::int64_t step, double work);

void write_text(const std::filesystem::path& path, const std::string& text);
std::string read_text(const std::filesystem::path& path);

}  // namespace longwave
