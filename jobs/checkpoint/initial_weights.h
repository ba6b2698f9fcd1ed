// run.init_from: a run that starts from another's weights, as continued training with a new context or position does.
#pragma once

#include <string>

#include "jobs/job.h"
#include "parallel/data_parallel.h"

namespace longwave {

// Whether `path` holds the model's weights, by names and shapes, before anything is written. For one rank. Throws data_error.
void check_initial_weights(const std::string& path, const Transformer& model);

// Copies every weight of `path` into an initialised model, on any mesh. What belongs to the positions, frequencies and
// coefficients, stays as drawn. Names and shapes must be the model's, and a checkpoint's checksums right: SharedError
// otherwise. Collective. Returns what the weights were taken from.
std::string load_initial_weights(const std::string& path, Job& job, DataParallel& optimizer);

}  // namespace longwave
