// weights.safetensors: the trained model for anyone's tools, fp32, whole matrices under Hugging Face Llama names, written
// by rank 0; and reading such a file into a model on any mesh.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/model/transformer.h"
#include "parallel/data_parallel.h"
#include "parallel/mesh.h"

namespace longwave {

// Collective. Gathers the masters from every rank; `metadata` goes into the header. Throws on rank 0 alone when writing fails:
// run it in `together`'s error exchange with `raise_together`.
void write_weights(const std::string& path, const Transformer& model, Backend& backend, const DataParallel& optimizer, Mesh& mesh,
                   const std::vector<std::pair<std::string, std::string>>& metadata);

// This shard's part of every parameter; names and shapes must be the model's. Throws data_error naming what differs, or the
// file when its checksum is wrong.
void read_weights(const std::string& path, Transformer& model, Backend& backend);

}  // namespace longwave
