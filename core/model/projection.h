// Registers one matrix of the model, split over the tensor axis, drawn from a truncated normal of std 0.02.
#pragma once

#include <string>

#include "core/model/parameter_store.h"
#include "core/model/shard.h"

namespace longwave {

// Rows or columns [first, first + count) of `global` are this shard's. `align` false puts the parameter right behind
// the one added before, so that both are one fused matrix.
std::size_t add_projection(ParameterStore& store, const Shard& shard, const std::string& name, Shape global, Split split,
                           std::int64_t first, std::int64_t count, std::int64_t replicas = 1, bool align = true);

}  // namespace longwave
