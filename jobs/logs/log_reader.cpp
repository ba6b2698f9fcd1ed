#include "jobs/logs/log_reader.h"

#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/file.h"

namespace longwave {
namespace {

// Of "rank-00012.jsonl".
std::optional<int> rank_of(const std::string& name) {
  constexpr std::string_view prefix = "rank-", suffix = ".jsonl";
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  const char* begin = name.data() + prefix.size();
  const char* end = name.data() + name.size() - suffix.size();
  int rank = 0;
  const auto [stop, error] = std::from_chars(begin, end, rank);
  if (error != std::errc() || stop != end) return std::nullopt;
  return rank;
}

}  // namespace

std::vector<Json> LogReader::next() {
  const File file = File::open(path_);
  const std::uint64_t size = file.size();
  if (size <= read_) return {};
  std::string text(size - read_, '\0');
  file.read_at(text.data(), text.size(), read_);
  const std::size_t last_end = text.rfind('\n');
  if (last_end == std::string::npos) return {};
  text.resize(last_end + 1);
  read_ += text.size();
  std::vector<Json> events;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    events.push_back(parse_json(std::string_view(text).substr(begin, end - begin), path_));
    begin = end + 1;
  }
  return events;
}

RunLogReader::RunLogReader(const std::string& run_directory) : folder_(run_directory + "/logs") {
  find_logs();
  if (readers_.empty()) throw data_error("{}: no logs of ranks (logs/rank-00000.jsonl); name a run directory", run_directory);
}

void RunLogReader::find_logs() {
  std::error_code none;  // then there are no entries
  for (const auto& entry : std::filesystem::directory_iterator(folder_, none)) {
    const std::optional<int> rank = rank_of(entry.path().filename().string());
    if (rank) readers_.try_emplace(*rank, entry.path().string());
  }
}

std::vector<int> RunLogReader::ranks() const {
  std::vector<int> ranks;
  for (const auto& [rank, reader] : readers_) ranks.push_back(rank);
  return ranks;
}

std::vector<std::pair<int, Json>> RunLogReader::next() {
  find_logs();
  std::vector<std::pair<int, Json>> events;
  for (auto& [rank, reader] : readers_) {
    for (Json& event : reader.next()) events.emplace_back(rank, std::move(event));
  }
  return events;
}

}  // namespace longwave
