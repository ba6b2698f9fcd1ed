#include "jobs/checkpoint/weight_source.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/base/json.h"
#include "core/base/safetensors.h"
#include "jobs/checkpoint/resume.h"
#include "parallel/checkpoint/reader.h"
#include "parallel/checkpoint/step_directory.h"

namespace longwave {
namespace {

constexpr const char* index_name = "model.safetensors.index.json";
constexpr const char* single_name = "model.safetensors";

bool exists(const std::string& path) { return std::filesystem::exists(path); }

class CheckpointWeights final : public WeightSource {
 public:
  explicit CheckpointWeights(const std::string& path) : WeightSource(path), reader_(path) {
    for (const StoredTensor& tensor : reader_.manifest().tensors) {
      if (!tensor.name.starts_with("optimizer.")) entries_.push_back({tensor.name, tensor.dtype, tensor.shape});
    }
  }

  const std::vector<Entry>& entries() const override { return entries_; }

  std::vector<float> read(const Entry& entry, const Rectangle& part) const override {
    const StoredTensor& tensor = reader_.require(entry.name, DType::f32, entry.shape);
    std::vector<float> values(static_cast<std::size_t>(part.count()));
    reader_.read(tensor, part, values.data());
    return values;
  }

 private:
  CheckpointReader reader_;
  std::vector<Entry> entries_;
};

class SafetensorsWeights final : public WeightSource {
 public:
  SafetensorsWeights(const std::string& path, const std::vector<std::string>& files) : WeightSource(path) {
    for (const std::string& name : files) {
      files_.emplace_back(name);
      if (files_.back().has_checksum()) files_.back().verify();
      for (const SafetensorsEntry& tensor : files_.back().tensors()) {
        const bool first = places_.emplace(tensor.name, files_.size() - 1).second;
        if (!first) throw data_error("{}: {} is in two files", path, tensor.name);
        entries_.push_back({tensor.name, tensor.dtype, tensor.shape});
      }
    }
  }

  const std::vector<Entry>& entries() const override { return entries_; }

  std::vector<float> read(const Entry& entry, const Rectangle& part) const override {
    const SafetensorsFile& file = files_[places_.at(entry.name)];
    if (entry.dtype == DType::f32) return read_as<float>(file, entry, part);
    if (entry.dtype != DType::bf16) throw data_error("{}: {} is neither F32 nor BF16", file.path(), entry.name);
    const std::vector<bf16> values = read_as<bf16>(file, entry, part);
    std::vector<float> widened(values.size());
    std::transform(values.begin(), values.end(), widened.begin(), [](bf16 value) { return static_cast<float>(value); });
    return widened;
  }

 private:
  template <class T>
  static std::vector<T> read_as(const SafetensorsFile& file, const Entry& entry, const Rectangle& part) {
    std::vector<T> values(static_cast<std::size_t>(part.count()));
    read_rectangle(file, *file.find(entry.name), part, values.data());
    return values;
  }

  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> places_;
  std::vector<Entry> entries_;
};

// The files that model.safetensors.index.json names, each once.
std::vector<std::string> indexed_files(const std::string& folder) {
  const std::string path = folder + "/" + index_name;
  std::vector<std::string> files;
  read_fields(read_json(path), path, [&](const Json& json) {
    for (const auto& [tensor, file] : json.at("weight_map").items()) {
      const auto name = file.get<std::string>();
      if (name.find('/') != std::string::npos) throw data_error("{}: '{}' is no name for a file", path, name);
      files.push_back(folder + "/" + name);
    }
  });
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

}  // namespace

const WeightSource::Entry* WeightSource::find(const std::string& name) const {
  const auto found = std::find_if(entries().begin(), entries().end(), [&](const Entry& entry) { return entry.name == name; });
  return found == entries().end() ? nullptr : &*found;
}

void read_rectangle(const SafetensorsFile& file, const SafetensorsEntry& tensor, const Rectangle& part, void* out) {
  const std::size_t element = size_of(tensor.dtype);
  const std::int64_t columns = whole_of(tensor.shape).columns();
  const std::int64_t rows_at_once = part.columns() == columns ? part.rows() : 1;
  const std::size_t bytes = static_cast<std::size_t>(rows_at_once * part.columns()) * element;
  auto* to = static_cast<std::byte*>(out);
  for (std::int64_t row = part.row_begin; row < part.row_end; row += rows_at_once, to += bytes) {
    file.read(tensor, to, bytes, static_cast<std::uint64_t>(row * columns + part.column_begin) * element);
  }
}

std::unique_ptr<WeightSource> open_weights(const std::string& path) {
  if (exists(path + "/" + manifest_name)) return std::make_unique<CheckpointWeights>(path);
  if (exists(path + "/" + index_name)) return std::make_unique<SafetensorsWeights>(path, indexed_files(path));
  if (exists(path + "/" + single_name)) return std::make_unique<SafetensorsWeights>(path, std::vector{path + "/" + single_name});
  return std::make_unique<SafetensorsWeights>(path, std::vector{path});
}

std::string resolve_weights(const std::string& path) {
  if (!std::filesystem::is_directory(path)) {
    if (!exists(path)) throw data_error("{}: there is no such file or folder", path);
    return path;
  }
  for (const char* name : {manifest_name, index_name, single_name}) {
    if (exists(path + "/" + name)) return path;
  }
  const std::vector<std::int64_t> steps = list_steps(checkpoints_folder(path));
  if (!steps.empty()) return checkpoints_folder(path) + "/" + step_name(steps.back());
  if (exists(path + "/weights.safetensors")) return path + "/weights.safetensors";
  throw data_error("{}: is neither a run with checkpoints, nor a checkpoint, nor a folder with {}", path, single_name);
}

std::string resolve_checkpoint(const std::string& path) {
  if (exists(path + "/" + manifest_name)) return path;
  const std::vector<std::int64_t> steps = list_steps(checkpoints_folder(path));
  if (!steps.empty()) return checkpoints_folder(path) + "/" + step_name(steps.back());
  throw data_error("{}: is neither a checkpoint nor a run that has one", path);
}

void check_hugging_face_config(const std::string& folder, const ModelConfig& model) {
  const std::string path = folder + "/config.json";
  if (!exists(path)) return;
  read_fields(read_json(path), path, [&](const Json& json) {
    if (const auto type = json.at("model_type").get<std::string>(); type != "llama" && type != "longwave") {
      throw data_error("{}: model_type {} is not llama", path, type);
    }
    const auto require = [&](const char* name, auto standard, auto expected, const char* key) {
      const auto value = json.value(name, standard);
      if (value != expected) throw data_error("{}: {} is {}, {} is {}", path, name, value, key, expected);
    };
    const auto heads = json.at("num_attention_heads").get<std::int64_t>();
    require("num_attention_heads", heads, model.heads, "model.heads");
    require("num_key_value_heads", heads, model.kv_heads, "model.kv_heads");
    require("rms_norm_eps", 1e-6, model.norm_epsilon, "model.norm_epsilon");
    require("tie_word_embeddings", false, model.tied, "model.tied");
    for (const char* bias : {"attention_bias", "mlp_bias"}) {
      if (json.value(bias, false)) throw data_error("{}: {} is true; these models have no biases", path, bias);
    }
    if (const auto activation = json.value("hidden_act", std::string("silu")); activation != "silu") {
      throw data_error("{}: hidden_act {} is not silu", path, activation);
    }
  });
}

}  // namespace longwave
