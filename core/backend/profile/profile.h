// Where the time of a job goes: calls, seconds, operations and bytes of every Backend operation, matrix products by shape.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace longwave {

// What one call must at least do: operations (a multiply and an add are two) that run at the matrix-product rate, bytes of
// memory that its tensors hold, written and read ones added up. What is neither (an exponential) is not counted.
struct Work {
  double operations = 0;
  double bytes = 0;
};

struct ProfileKey {
  std::string operation;                // "linear_forward"
  std::int64_t rows = 0, outputs = 0, inputs = 0;  // of a matrix product; 0 for all else

  auto operator<=>(const ProfileKey&) const = default;
};

struct ProfileEntry {
  std::int64_t calls = 0;
  double seconds = 0;
  Work work;
};

// What the hardware can do, measured: see matrix_rate.h.
struct HardwareRates {
  double operations_per_second = 0;
  double bytes_per_second = 0;
};

// Seconds that the work takes at the rates: the larger of the two, since arithmetic and memory can overlap.
double floor_seconds(const Work& work, const HardwareRates& rates);

class Profile {
 public:
  void add(const ProfileKey& key, double seconds, const Work& work);
  void clear() { entries_.clear(); }

  struct Line {
    ProfileKey key;
    ProfileEntry entry;
  };
  std::vector<Line> by_seconds() const;  // the most expensive first
  ProfileEntry total() const;

 private:
  std::map<ProfileKey, ProfileEntry> entries_;
};

}  // namespace longwave
