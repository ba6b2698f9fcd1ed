// manifest.json: what a checkpoint holds and where. The format is described in parallel/checkpoint/README.md. A manifest is
// parsed as hostile input: whatever the bytes are, the result is a manifest whose slices cover every tensor and every byte
// of every file exactly once, or a data_error that names the file and what is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/tensor/dtype.h"
#include "parallel/checkpoint/rectangle.h"
#include "parallel/mesh.h"

namespace longwave {

inline constexpr std::int64_t checkpoint_format_version = 1;
inline constexpr const char* manifest_name = "manifest.json";

// A safetensors file of the checkpoint. Header and slices together are all of its bytes.
struct StoredFile {
  std::string name;                  // "rank-00000.safetensors"
  std::uint64_t bytes = 0;
  std::uint64_t header_bytes = 0;    // up to the first tensor's data
  std::uint64_t header_checksum = 0;
};

struct StoredSlice {
  std::size_t file = 0;              // index into the manifest's files
  std::string tensor;                // its name in that file
  Rectangle rectangle;               // of the logical tensor
  std::uint64_t offset = 0;          // bytes from the start of the file
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<StoredSlice> slices;
};

// What a checkpoint says of the run beside its tensors.
struct CheckpointFacts {
  std::int64_t step = 0;             // updates made
  std::int64_t samples = 0;          // of the data taken so far: the next step begins at this one
  std::string program;               // version and commit that wrote it
  std::vector<std::pair<std::string, std::string>> config;  // dotted key and value, as YAML
  Json training = Json::object();    // counters of the training loop
};

struct Manifest {
  CheckpointFacts facts;
  std::string time;
  MeshShape mesh;
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors;

  const StoredTensor* find(const std::string& tensor) const;  // null when there is none
  std::uint64_t bytes() const;                                // of all files
};

// "optimizer.moment1.model.norm.weight": the logical name of AdamW's first or second moment of a parameter.
std::string moment_name(int moment, const std::string& parameter);

std::string format_manifest(const Manifest& manifest);
Manifest parse_manifest(std::string_view text, const std::string& path);

// A rank's file and its slices on their way to rank 0, which writes the manifest.
Json to_json(const StoredFile& file);
StoredFile file_from_json(const Json& json);
Json to_json(const StoredSlice& slice);
StoredSlice slice_from_json(const Json& json);

}  // namespace longwave
