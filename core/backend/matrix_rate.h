// The rate against which a step is judged: what the device's own matrix product reaches on a large square product.
#pragma once

#include "core/backend/backend.h"

namespace longwave {

// Operations a second (a multiply and an add are two) of linear_forward on [n, n] x [n, n] in `compute`, the best of several
// until it grows no more; takes 0.1 to 0.4 seconds. Run on all ranks of a node at once it measures what they reach together.
double measure_matrix_rate(Backend& backend, DType compute, std::int64_t n = 1024);

}  // namespace longwave
