#include "jobs/checkpoint/export.h"

#include <algorithm>
#include <filesystem>

#include "core/base/json.h"
#include "core/base/safetensors.h"
#include "core/position/position.h"
#include "jobs/checkpoint/saved_config.h"
#include "parallel/checkpoint/reader.h"

namespace longwave {
namespace {

// Of one logical tensor, as it will be written.
DType exported_dtype(const StoredTensor& tensor, DType weights) {
  const bool position = tensor.name.find(".position.") != std::string::npos;
  return position ? tensor.dtype : weights;  // rounded angles would be wrong at large positions
}

std::uint64_t exported_bytes(const StoredTensor& tensor, DType weights) {
  return static_cast<std::uint64_t>(whole_of(tensor.shape).count()) * size_of(exported_dtype(tensor, weights));
}

bool is_llama(const Config& config) { return config.position.kind == PositionKind::rope && !config.model.qk_norm; }

Json hugging_face_config(const Config& config, const CheckpointFacts& facts, DType dtype) {
  const ModelConfig& model = config.model;
  const bool llama = is_llama(config);
  Json json = {{"architectures", {llama ? "LlamaForCausalLM" : "LongwaveForCausalLM"}},
               {"model_type", llama ? "llama" : "longwave"},
               {"vocab_size", model.vocabulary},
               {"hidden_size", model.width},
               {"intermediate_size", model.mlp_hidden},
               {"num_hidden_layers", model.layers},
               {"num_attention_heads", model.heads},
               {"num_key_value_heads", model.kv_heads},
               {"head_dim", model.head_dim},
               {"hidden_act", "silu"},
               {"max_position_embeddings", model.context},
               {"rms_norm_eps", model.norm_epsilon},
               {"rope_theta", config.position.theta},
               {"rope_scaling", nullptr},
               {"attention_bias", false},
               {"mlp_bias", false},
               {"tie_word_embeddings", model.tied},
               {"torch_dtype", dtype == DType::bf16 ? "bfloat16" : "float32"}};
  if (config.data.tokenizer == "bytes") json["bos_token_id"] = json["eos_token_id"] = 256;  // between documents
  if (llama) return json;
  Json position = Json::object();
  for (const auto& [key, value] : facts.config) {
    if (!key.starts_with("position.")) continue;
    // As YAML: numbers and booleans are JSON as they stand, words are not.
    position[key.substr(key.find('.') + 1)] = Json::accept(value) ? Json::parse(value) : Json(value);
  }
  json["qk_norm"] = model.qk_norm;
  json["position"] = position;
  return json;
}

// Tensors of one file of the export.
using Group = std::vector<const StoredTensor*>;

std::vector<Group> make_groups(const Manifest& manifest, bool llama, const ExportOptions& options) {
  std::vector<Group> groups(1);
  std::uint64_t bytes = 0;
  for (const StoredTensor& tensor : manifest.tensors) {
    const bool position = tensor.name.find(".position.") != std::string::npos;
    if (tensor.name.starts_with("optimizer.") || (llama && position)) continue;  // Llama computes its frequencies itself
    const std::uint64_t more = exported_bytes(tensor, options.dtype);
    if (!groups.back().empty() && bytes + more > options.shard_bytes) {
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back(&tensor);
    bytes += more;
  }
  return groups;
}

void write_group(const CheckpointReader& reader, const Group& group, const std::string& path, DType weights) {
  std::vector<TensorSpec> specs;
  for (const StoredTensor* tensor : group) specs.push_back({tensor->name, exported_dtype(*tensor, weights), tensor->shape});
  SafetensorsWriter writer(path, specs, {{"format", "pt"}});
  for (const StoredTensor* tensor : group) {
    const Rectangle whole = whole_of(tensor->shape);
    std::vector<std::byte> values(static_cast<std::size_t>(whole.count()) * size_of(tensor->dtype));
    reader.read(*tensor, whole, values.data());
    if (exported_dtype(*tensor, weights) == DType::bf16 && tensor->dtype == DType::f32) {
      const auto* wide = reinterpret_cast<const float*>(values.data());
      std::vector<bf16> rounded(static_cast<std::size_t>(whole.count()));
      std::transform(wide, wide + rounded.size(), rounded.begin(), [](float value) { return bf16(value); });
      writer.write(tensor->name, rounded.data(), rounded.size() * sizeof(bf16));
    } else {
      writer.write(tensor->name, values.data(), values.size());
    }
  }
  writer.commit();
}

void write_groups(const CheckpointReader& reader, const std::vector<Group>& groups, const std::string& folder, DType weights) {
  if (groups.size() == 1) return write_group(reader, groups[0], folder + "/model.safetensors", weights);
  Json map = Json::object();
  std::uint64_t total = 0;
  for (std::size_t index = 0; index < groups.size(); ++index) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, groups.size());
    write_group(reader, groups[index], folder + "/" + name, weights);
    for (const StoredTensor* tensor : groups[index]) {
      map[tensor->name] = name;
      total += exported_bytes(*tensor, weights);
    }
  }
  write_json_atomically(folder + "/model.safetensors.index.json", {{"metadata", {{"total_size", total}}}, {"weight_map", map}});
}

}  // namespace

void export_checkpoint(const std::string& checkpoint, const std::string& output, const ExportOptions& options) {
  const CheckpointReader reader(checkpoint);
  reader.check_sizes();
  for (std::size_t file = 0; file < reader.manifest().files.size(); ++file) reader.verify(file);
  const Config config = config_from_keys(reader.manifest().facts.config);
  if (std::filesystem::exists(output)) throw config_error("{}: exists already; name a folder that does not", output);

  const std::string partial = output + ".partial";
  remove_directories(partial);
  make_directories(partial);
  try {
    write_json_atomically(partial + "/config.json", hugging_face_config(config, reader.manifest().facts, options.dtype));
    write_groups(reader, make_groups(reader.manifest(), is_llama(config), options), partial, options.dtype);
    LONGWAVE_SYSTEM("rename", output, std::rename(partial.c_str(), output.c_str()));
  } catch (...) {
    remove_directories(partial);
    throw;
  }
  sync_directory(parent_directory(output));
}

}  // namespace longwave
