#include "parallel/checkpoint/step_directory.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"

namespace longwave {
namespace {

constexpr std::string_view prefix = "step-";
constexpr std::size_t least_digits = 8;

std::string path_of(const std::string& checkpoints, std::int64_t step, const char* state = "") {
  return checkpoints + "/" + step_name(step) + state;
}

void rename_durably(const std::string& from, const std::string& to) {
  LONGWAVE_SYSTEM("rename", to, std::rename(from.c_str(), to.c_str()));
  sync_directory(parent_directory(to));
}

}  // namespace

std::string step_name(std::int64_t step) { return fmt::format("{}{:0{}}", prefix, step, least_digits); }

std::optional<std::int64_t> parse_step_name(std::string_view name) {
  if (!name.starts_with(prefix) || name.size() < prefix.size() + least_digits) return std::nullopt;
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0 || step_name(step) != name) return std::nullopt;
  return step;
}

std::string rank_file_name(int rank) { return fmt::format("rank-{:05}.safetensors", rank); }

std::vector<std::int64_t> list_steps(const std::string& checkpoints) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  if (!std::filesystem::exists(checkpoints, error) && !error) return steps;
  std::filesystem::directory_iterator entries(checkpoints, error);
  if (error) throw system_error("opendir", checkpoints, error.value(), __FILE__, __LINE__);
  for (const auto& entry : entries) {
    const std::optional<std::int64_t> step = parse_step_name(entry.path().filename().string());
    if (step && entry.is_directory()) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string begin_partial(const std::string& checkpoints, std::int64_t step) {
  const std::string path = path_of(checkpoints, step, ".partial");
  remove_directories(path);
  make_directories(path);
  return path;
}

void commit_partial(const std::string& checkpoints, std::int64_t step) {
  const std::string partial = path_of(checkpoints, step, ".partial");
  sync_directory(partial);
  rename_durably(partial, path_of(checkpoints, step));
}

void remove_partial(const std::string& checkpoints, std::int64_t step) {
  remove_directories(path_of(checkpoints, step, ".partial"));
}

void remove_leftovers(const std::string& checkpoints) {
  if (!std::filesystem::is_directory(checkpoints)) return;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".partial" || extension == ".removed") remove_directories(entry.path().string());
  }
}

void write_latest(const std::string& checkpoints, std::int64_t step) {
  write_file_atomically(checkpoints + "/latest", step_name(step) + "\n");
}

std::vector<std::int64_t> apply_retention(const std::string& checkpoints, std::int64_t keep, std::int64_t keep_every) {
  std::vector<std::int64_t> removed;
  const std::vector<std::int64_t> steps = list_steps(checkpoints);
  const std::size_t kept = std::min(steps.size(), static_cast<std::size_t>(std::max<std::int64_t>(keep, 1)));
  for (std::size_t index = 0; index + kept < steps.size(); ++index) {
    if (keep_every > 0 && steps[index] % keep_every == 0) continue;
    const std::string marked = path_of(checkpoints, steps[index], ".removed");
    rename_durably(path_of(checkpoints, steps[index]), marked);
    remove_directories(marked);
    removed.push_back(steps[index]);
  }
  return removed;
}

std::string set_aside(const std::string& checkpoints, std::int64_t step) {
  std::string path = path_of(checkpoints, step, ".aside");
  for (int again = 2; std::filesystem::exists(path); ++again) path = path_of(checkpoints, step) + fmt::format(".aside{}", again);
  rename_durably(path_of(checkpoints, step), path);
  return path;
}

}  // namespace longwave
