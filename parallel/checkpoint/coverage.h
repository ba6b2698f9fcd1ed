// Whether a manifest's slices can be trusted to be the whole checkpoint.
#pragma once

#include "parallel/checkpoint/manifest.h"

namespace longwave {

// Throws a data_error unless every tensor's slices cover it exactly once and, with the headers, every byte of every file, and
// names and sizes are what they can be.
void check_coverage(const Manifest& manifest);

}  // namespace longwave
