// The rate against which operations without matrix products are judged: how fast the device copies memory.
#pragma once

#include "core/backend/backend.h"

namespace longwave {

// Bytes a second, read and written ones added up, of a copy of 128 MiB, which no cache holds; the best of several. Takes
// about a fifth of a second and 256 MiB for that time. Run on all ranks of a node at once it measures what each then gets.
double measure_memory_rate(Backend& backend);

}  // namespace longwave
