// weights.safetensors: the trained model for anyone's tools, fp32, whole matrices under Hugging Face Llama names, written
// by rank 0; and reading such a file into a model on any mesh.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/model/transformer.h"
#include "parallel/checkpoint/snapshot.h"
#include "parallel/communicator.h"

namespace longwave {

// Collective: captures the snapshot and gathers from it, tensor by tensor, what belongs to the model. `metadata` goes into the
// header. Throws SharedError.
void write_weights(const std::string& path, Snapshot& snapshot, Communicator& control,
                   const std::vector<std::pair<std::string, std::string>>& metadata);

// This shard's part of every parameter; names and shapes must be the model's. Throws data_error naming what differs, or the
// file when its checksum is wrong.
void read_weights(const std::string& path, Transformer& model, Backend& backend);

}  // namespace longwave
