#include "core/backend/profile/profile.h"

#include <algorithm>

namespace longwave {
namespace {

void add_to(ProfileEntry& entry, std::int64_t calls, double seconds, const Work& work) {
  entry.calls += calls;
  entry.seconds += seconds;
  entry.work.operations += work.operations;
  entry.work.bytes += work.bytes;
}

}  // namespace

double floor_seconds(const Work& work, const HardwareRates& rates) {
  return std::max(work.operations / rates.operations_per_second, work.bytes / rates.bytes_per_second);
}

void Profile::add(const ProfileKey& key, double seconds, const Work& work) { add_to(entries_[key], 1, seconds, work); }

std::vector<Profile::Line> Profile::by_seconds() const {
  std::vector<Line> lines;
  for (const auto& [key, entry] : entries_) lines.push_back({key, entry});
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.entry.seconds > b.entry.seconds; });
  return lines;
}

ProfileEntry Profile::total() const {
  ProfileEntry sum;
  for (const auto& [key, entry] : entries_) add_to(sum, entry.calls, entry.seconds, entry.work);
  return sum;
}

}  // namespace longwave
