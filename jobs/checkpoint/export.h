// A checkpoint as a Hugging Face folder: config.json, and model.safetensors or numbered shards with an index.
#pragma once

#include <cstdint>
#include <string>

#include "core/tensor/dtype.h"

namespace longwave {

struct ExportOptions {
  DType dtype = DType::f32;                  // or bf16, of the weights
  std::uint64_t shard_bytes = 5'000'000'000;  // files of the export grow no larger, unless one tensor is
};

// Writes `output`, which must not exist, from a verified checkpoint. Models with plain RoPE become LlamaForCausalLM; the others
// get model_type "longwave" and their position tensors (see parallel/checkpoint/README.md). Throws data and io errors; nothing
// remains then.
void export_checkpoint(const std::string& checkpoint, const std::string& output, const ExportOptions& options);

}  // namespace longwave
