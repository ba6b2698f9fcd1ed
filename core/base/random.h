// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// Nothing draws from a stream. A key names what is drawn, (seed, purpose, name); a counter names which element. So a
// value is a pure function of the configuration and of its global index: the same on every mesh, rank and restart.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace longwave {

using PhiloxBlock = std::array<std::uint32_t, 4>;

// The ten-round block function, as specified by Random123.
PhiloxBlock philox4x32_10(PhiloxBlock counter, std::array<std::uint32_t, 2> key);

class RandomKey {
 public:
  // `purpose` separates uses ("init", "fope", "order", "passkey", ...), `name` separates objects within one use.
  RandomKey(std::uint64_t seed, std::string_view purpose, std::string_view name = {});

  // 64 uniform bits for element `index`; `lane` gives further independent values for the same element.
  std::uint64_t bits(std::uint64_t index, std::uint64_t lane = 0) const;
  // Uniform in (0, 1), never 0 or 1, 52 bits.
  double uniform(std::uint64_t index, std::uint64_t lane = 0) const;
  // Uniform integer in [0, bound), bound > 0, without bias beyond 2^-64 * bound.
  std::uint64_t below(std::uint64_t bound, std::uint64_t index, std::uint64_t lane = 0) const;
  // Standard normal by the inverse distribution function, so one index is one value.
  double normal(std::uint64_t index, std::uint64_t lane = 0) const;
  // Standard normal conditioned on |x| <= limit, by the same inverse: no rejection, no loop.
  double truncated_normal(double limit, std::uint64_t index, std::uint64_t lane = 0) const;

 private:
  std::array<std::uint32_t, 2> key_;  // XXH3 of (seed, purpose, name); the counter is (index, lane)
};

// Phi and its inverse (Wichura, algorithm AS 241, PPND16: relative error about 1e-16).
double normal_cdf(double x);
double normal_quantile(double p);

}  // namespace longwave
