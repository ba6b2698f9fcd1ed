#include "jobs/logs/rank_history.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/timestamp.h"
#include "jobs/report/text_table.h"

namespace longwave {
namespace {

constexpr std::size_t problems_kept = 3;

std::string text(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

// 0 when it is missing, or null: JSON has no NaN.
double number(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<double>() : 0;
}

double seconds_between(std::chrono::system_clock::time_point begin, std::chrono::system_clock::time_point end) {
  return std::max(0.0, std::chrono::duration<double>(end - begin).count());
}

std::string show_seconds(double seconds) { return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : seconds < 100 ? 1 : 0); }
std::string show_milliseconds(double seconds) { return fmt::format("{:.4g} ms", 1000 * seconds); }

std::string count_problems(const RankHistory& rank) {
  const auto count = [](std::int64_t number_of, const char* word) {
    return number_of == 0 ? "" : fmt::format("{} {}{}", number_of, word, number_of == 1 ? "" : "s");
  };
  const std::string errors = count(rank.errors(), "error"), warnings = count(rank.warnings(), "warning");
  if (errors.empty() || warnings.empty()) return errors.empty() && warnings.empty() ? "-" : errors + warnings;
  return errors + ", " + warnings;
}

// Phases that any rank was in: those of a job in its order, then others.
std::vector<std::string> phases_of(const std::map<int, RankHistory>& ranks) {
  std::map<std::string, double> all;
  for (const auto& [number_of_rank, rank] : ranks) all.merge(rank.seconds_by_phase());
  std::vector<std::string> phases;
  for (const char* phase : {"start", "train", "save", "evaluate"}) {
    if (all.erase(phase) > 0) phases.push_back(phase);
  }
  for (const auto& [phase, seconds] : all) phases.push_back(phase);
  return phases;
}

}  // namespace

void RankHistory::add(const Json& event) {
  const std::string kind = text(event, "event"), level = text(event, "level");
  const std::optional<Time> time = parse_timestamp(text(event, "time"));
  if (kind == "start") {  // an attempt begins; what the one before was in when it was cut off ends with its last sign
    ended_ = seconds_by_phase();
    entered_ = time;
  }
  host_ = text(event, "host");
  phase_ = text(event, "phase");
  step_ = static_cast<std::int64_t>(number(event, "step"));
  if (time) last_ = time;
  if (kind == "phase") {
    ended_[phase_] += number(event, "seconds");
    phase_ = text(event, "next");
    entered_ = phase_ == "end" ? std::nullopt : time;
  }
  if (kind == "step") {
    steps_ += static_cast<std::int64_t>(number(event, "steps"));
    work_ += number(event, "data_seconds") + number(event, "forward_seconds") + number(event, "backward_seconds") +
             number(event, "optimizer_seconds") - number(event, "exposed_communication_seconds");
  }
  if (level != "warning" && level != "error") return;
  ++(level == "error" ? errors_ : warnings_);
  problems_.push_back(event);
  if (problems_.size() > problems_kept) problems_.erase(problems_.begin());
}

void RankHistory::add(const HeartbeatRecord& heartbeat) {
  const std::optional<Time> time = parse_timestamp(heartbeat.time);
  if (!time || (last_ && *time < *last_)) return;
  last_ = time;
  host_ = heartbeat.host;
  phase_ = heartbeat.phase;
  step_ = heartbeat.step;
}

std::map<std::string, double> RankHistory::seconds_by_phase() const {
  std::map<std::string, double> seconds = ended_;
  if (entered_ && last_) seconds[phase_] += seconds_between(*entered_, *last_);
  return seconds;
}

std::optional<double> RankHistory::work_per_step() const {
  if (steps_ == 0) return std::nullopt;
  return work_ / static_cast<double>(steps_);
}

std::string rank_table(const std::map<int, RankHistory>& ranks) {
  double sum = 0, most = 0;
  int count = 0, slowest = -1;
  for (const auto& [number_of_rank, rank] : ranks) {
    const std::optional<double> work = rank.work_per_step();
    if (!work) continue;
    sum += *work;
    ++count;
    if (*work > most) {
      most = *work;
      slowest = number_of_rank;
    }
  }
  const std::vector<std::string> phases = phases_of(ranks);
  std::vector<std::string> header = {"rank", "host", "step", "phase"};
  header.insert(header.end(), phases.begin(), phases.end());
  header.insert(header.end(), {"work a step", "slowest", "problems"});
  TextTable table(header);
  for (const auto& [number_of_rank, rank] : ranks) {
    std::vector<std::string> cells = {fmt::format("{}", number_of_rank), rank.host(), fmt::format("{}", rank.step()), rank.phase()};
    const std::map<std::string, double> seconds = rank.seconds_by_phase();
    for (const std::string& phase : phases) {
      const auto found = seconds.find(phase);
      cells.push_back(found == seconds.end() ? "-" : show_seconds(found->second));
    }
    const std::optional<double> work = rank.work_per_step();
    cells.push_back(work ? show_milliseconds(*work) : "-");
    const bool waited_for = number_of_rank == slowest && count > 1;
    cells.push_back(waited_for ? "+" + show_milliseconds(most - sum / count) : "");
    cells.push_back(count_problems(rank));
    table.add_row(cells);
  }
  return table.str();
}

}  // namespace longwave
