#include "core/base/random.h"

#include <xxhash.h>

#include <cmath>
#include <string>

namespace longwave {
namespace {

struct Product {
  std::uint32_t high;
  std::uint32_t low;
};

Product multiply(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t wide = static_cast<std::uint64_t>(a) * b;
  return {static_cast<std::uint32_t>(wide >> 32), static_cast<std::uint32_t>(wide)};
}

// Horner's rule over coefficients from the highest power down.
template <std::size_t N>
double polynomial(const double (&coefficients)[N], double x) {
  double sum = 0;
  for (double coefficient : coefficients) sum = sum * x + coefficient;
  return sum;
}

}  // namespace

PhiloxBlock philox4x32_10(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const Product p0 = multiply(0xD2511F53u, counter[0]);
    const Product p1 = multiply(0xCD9E8D57u, counter[2]);
    counter = {p1.high ^ counter[1] ^ key[0], p1.low, p0.high ^ counter[3] ^ key[1], p0.low};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

RandomKey::RandomKey(std::uint64_t seed, std::string_view purpose, std::string_view name) {
  std::string text(purpose);
  text += '\0';
  text += name;
  const std::uint64_t hash = XXH3_64bits_withSeed(text.data(), text.size(), seed);
  key_ = {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)};
}

std::uint64_t RandomKey::bits(std::uint64_t index, std::uint64_t lane) const {
  const PhiloxBlock block = philox4x32_10({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                                           static_cast<std::uint32_t>(lane), static_cast<std::uint32_t>(lane >> 32)},
                                          key_);
  return block[0] | static_cast<std::uint64_t>(block[1]) << 32;
}

double RandomKey::uniform(std::uint64_t index, std::uint64_t lane) const {
  return (static_cast<double>(bits(index, lane) >> 12) + 0.5) * 0x1p-52;
}

std::uint64_t RandomKey::below(std::uint64_t bound, std::uint64_t index, std::uint64_t lane) const {
  __extension__ using uint128 = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<uint128>(bits(index, lane)) * bound) >> 64);
}

double RandomKey::normal(std::uint64_t index, std::uint64_t lane) const { return normal_quantile(uniform(index, lane)); }

double RandomKey::truncated_normal(double limit, std::uint64_t index, std::uint64_t lane) const {
  const double low = normal_cdf(-limit);
  return normal_quantile(low + uniform(index, lane) * (1 - 2 * low));
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    static constexpr double a[] = {
        2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
        13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608};
    static constexpr double b[] = {
        5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
        5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0};
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  double r = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  double value;
  if (r <= 5) {
    static constexpr double c[] = {
        7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
        3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734};
    static constexpr double d[] = {
        1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
        0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0};
    r -= 1.6;
    value = polynomial(c, r) / polynomial(d, r);
  } else {
    static constexpr double e[] = {
        2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
        0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772};
    static constexpr double f[] = {
        2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
        0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0};
    r -= 5;
    value = polynomial(e, r) / polynomial(f, r);
  }
  return q < 0 ? -value : value;
}

}  // namespace longwave
