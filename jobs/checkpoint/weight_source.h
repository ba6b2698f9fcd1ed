// Weights under Hugging Face Llama names, wherever they are kept: in a checkpoint, in one safetensors file, or in a Hugging
// Face folder with one file or several.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/safetensors.h"
#include "core/model/model_config.h"
#include "core/tensor/dtype.h"
#include "parallel/checkpoint/rectangle.h"

namespace longwave {

class WeightSource {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::f32;  // as stored
    std::vector<std::int64_t> shape;
  };

  virtual ~WeightSource() = default;

  // Every logical tensor, the optimizer's state left out.
  virtual const std::vector<Entry>& entries() const = 0;
  // A rectangle of the tensor as fp32, row-major.
  virtual std::vector<float> read(const Entry& entry, const Rectangle& part) const = 0;

  const Entry* find(const std::string& name) const;  // null when there is none
  const std::string& path() const { return path_; }

 protected:
  explicit WeightSource(std::string path) : path_(std::move(path)) {}

 private:
  std::string path_;
};

// The elements of a rectangle of a tensor, row-major, in the tensor's dtype.
void read_rectangle(const SafetensorsFile& file, const SafetensorsEntry& tensor, const Rectangle& part, void* out);

// `path` is a checkpoint (a folder with manifest.json), a .safetensors file, or a folder with model.safetensors or
// model.safetensors.index.json. Throws data_error. Checksums are the caller's affair.
std::unique_ptr<WeightSource> open_weights(const std::string& path);

// What a user may name: one of the above, or a run, whose newest checkpoint or, when it has none, final weights are meant.
// Throws data_error when `path` is none of these.
std::string resolve_weights(const std::string& path);
// Likewise where only a checkpoint will do.
std::string resolve_checkpoint(const std::string& path);

// Throws data_error when a Hugging Face folder's config.json is of a model that computes something else: another kind of
// model, other heads, another epsilon, biases. Shapes are compared elsewhere. Folders without config.json pass.
void check_hugging_face_config(const std::string& path, const ModelConfig& model);

}  // namespace longwave
