#include "jobs/profile.h"

#include <fmt/format.h>

#include "core/backend/matrix_rate.h"
#include "core/backend/memory_rate.h"
#include "jobs/report/text_table.h"

namespace longwave {
namespace {

std::string shape_of(const ProfileKey& key) {
  return key.rows == 0 ? "" : fmt::format("{} x {} x {}", key.rows, key.outputs, key.inputs);
}

std::vector<std::string> row(const ProfileKey& key, const ProfileEntry& entry, const HardwareRates& rates, double wall_seconds) {
  const bool computes = entry.work.operations > 0;
  const double rate = (computes ? entry.work.operations : entry.work.bytes) / entry.seconds / 1e9;
  return {key.operation,
          shape_of(key),
          fmt::format("{}", entry.calls),
          fmt::format("{:.3f}", entry.seconds),
          fmt::format("{:.1f}", 100 * entry.seconds / wall_seconds),
          fmt::format("{:.1f}", rate),
          computes ? "GFLOP/s" : "GB/s",
          fmt::format("{:.2f}", floor_seconds(entry.work, rates) / entry.seconds)};
}

}  // namespace

std::string profile_table(const Profile& profile, const HardwareRates& rates, double wall_seconds) {
  TextTable table({"operation", "rows x outputs x inputs", "calls", "seconds", "% of time", "rate", "", "of floor"});
  for (const Profile::Line& line : profile.by_seconds()) table.add_row(row(line.key, line.entry, rates, wall_seconds));
  const ProfileEntry total = profile.total();
  const double outside = wall_seconds - total.seconds;
  table.add_row({"outside of these", "", "", fmt::format("{:.3f}", outside), fmt::format("{:.1f}", 100 * outside / wall_seconds)});
  // The floor of the whole is its products at the product rate: memory traffic could hide behind them.
  table.add_row({"all", "", fmt::format("{}", total.calls), fmt::format("{:.3f}", wall_seconds), "100.0",
                 fmt::format("{:.1f}", total.work.operations / wall_seconds / 1e9), "GFLOP/s",
                 fmt::format("{:.2f}", total.work.operations / rates.operations_per_second / wall_seconds)});
  return table.str();
}

JobProfile::JobProfile(Job& job) : job_(job) {
  if (job_.device.profile == nullptr) return;
  job_.control.barrier();
  rates_.operations_per_second = measure_matrix_rate(job_.backend(), job_.device.compute);
  job_.control.barrier();
  rates_.bytes_per_second = measure_memory_rate(job_.backend());
  job_.device.profile->clear();
  begin_ = Clock::now();
}

void JobProfile::print(const char* part, Progress& progress) {
  if (job_.device.profile == nullptr) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  progress.say(fmt::format("profile of {} on rank 0; floor: {:.0f} GFLOP/s of matrix products, {:.1f} GB/s of memory (a cache may "
                           "exceed it)\n{}",
                           part, rates_.operations_per_second / 1e9, rates_.bytes_per_second / 1e9,
                           profile_table(*job_.device.profile, rates_, seconds)));
  job_.device.profile->clear();
  begin_ = Clock::now();
}

}  // namespace longwave
