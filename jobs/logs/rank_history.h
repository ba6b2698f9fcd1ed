// What the events of its log say about a rank, and the table of all ranks: last step, phase, time per phase, whom the others
// wait for, and what went wrong.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "jobs/run_directory/heartbeat.h"

namespace longwave {

class RankHistory {
 public:
  void add(const Json& event);
  // Newer than the last event, as steps are not all logged.
  void add(const HeartbeatRecord& heartbeat);

  const std::string& host() const { return host_; }
  const std::string& phase() const { return phase_; }  // "end" once the rank has left
  std::int64_t step() const { return step_; }
  // Seconds in each phase, over all attempts; in the one under way up to the last sign of the rank.
  std::map<std::string, double> seconds_by_phase() const;
  // Seconds of its own work a step, without waiting for others; nothing before a step was logged.
  std::optional<double> work_per_step() const;
  std::int64_t warnings() const { return warnings_; }
  std::int64_t errors() const { return errors_; }
  // The last few warnings and errors, as events.
  const std::vector<Json>& problems() const { return problems_; }

 private:
  using Time = std::chrono::system_clock::time_point;

  std::string host_;
  std::string phase_ = "start";
  std::int64_t step_ = 0;
  std::map<std::string, double> ended_;  // seconds of phases that are over
  std::optional<Time> entered_;          // the phase under way; none once the rank has left
  std::optional<Time> last_;             // sign of life
  std::int64_t steps_ = 0;
  double work_ = 0;
  std::int64_t warnings_ = 0;
  std::int64_t errors_ = 0;
  std::vector<Json> problems_;
};

std::string rank_table(const std::map<int, RankHistory>& ranks);

}  // namespace longwave
