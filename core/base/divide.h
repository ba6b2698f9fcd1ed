// Whole parts of sizes that do not divide. Arguments are not negative, `by` and `unit` positive.
#pragma once

#include <type_traits>

namespace longwave {

// How many parts of `by` hold `value`.
template <class T> constexpr T divide_up(T value, std::type_identity_t<T> by) { return (value + by - 1) / by; }

// The next multiple of `unit`, or `value` itself.
template <class T> constexpr T round_up(T value, std::type_identity_t<T> unit) { return divide_up(value, unit) * unit; }

}  // namespace longwave
