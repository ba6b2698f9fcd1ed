// Putting a checkpoint, whatever mesh wrote it, into a model and an optimizer on this mesh.
#pragma once

#include "core/model/transformer.h"
#include "parallel/checkpoint/reader.h"
#include "parallel/data_parallel.h"

namespace longwave {

// Everything: masters, moments, frozen coefficients and frequencies. `host_memory`: the backend's memory is the host's.
// Collective; when any rank fails, all throw SharedError.
void restore(const CheckpointReader& checkpoint, Transformer& model, Backend& backend, DataParallel& optimizer,
             Communicator& control, bool host_memory);

}  // namespace longwave
