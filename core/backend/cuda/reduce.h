// Sums and maxima over a warp or a block, in an order that depends on nothing but the number of threads.
#pragma once

#include "core/backend/cuda/device.h"

namespace longwave::device {

struct Sum {
  template <class T> LONGWAVE_DEVICE static T join(T a, T b) { return a + b; }
};
// NaN wins, so that a NaN in a logit reaches the loss.
struct Maximum {
  template <class T> LONGWAVE_DEVICE static T join(T a, T b) { return a > b || a != a ? a : b; }
};

// The result in every lane.
template <class Join, class T> LONGWAVE_DEVICE T warp_reduce(T value) {
  LONGWAVE_UNROLL
  for (int lanes = 16; lanes > 0; lanes /= 2) value = Join::join(value, shuffle_xor(value, lanes));
  return value;
}

// The result in every thread. `scratch` is shared memory of 32 elements; a barrier later it may be used again.
template <class Join, class T> LONGWAVE_DEVICE T block_reduce(T value, T* scratch) {
  value = warp_reduce<Join>(value);
  const int warps = threads() / 32;
  if (thread() % 32 == 0) scratch[thread() / 32] = value;
  barrier();
  T result = scratch[0];
  for (int warp = 1; warp < warps; ++warp) result = Join::join(result, scratch[warp]);
  barrier();
  return result;
}

}  // namespace longwave::device
