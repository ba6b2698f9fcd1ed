// Ranks as a grid, data x tensor: rank = data_rank * tensor + tensor_rank, so the shards of one model are neighbours and,
// with the launchers' usual placement, on one node. The one authority for "which group do I reduce over for this":
//
//   activations, vocabulary-parallel loss      tensor()
//   gradients, updated parameters              data()
//   gradients of replicated KV heads           replicas(n): the n adjacent shards that hold the same values
//   decisions, norms, loss totals              control(): every rank, host memory
//   decisions of the shards of one model       tensor_control(): host memory
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/model/model_config.h"
#include "parallel/communicator.h"

namespace longwave {

struct MeshShape {
  int data = 1;
  int tensor = 1;
  bool operator==(const MeshShape&) const = default;
};

// All meshes of `ranks` that the model allows, by ascending tensor: data * tensor == ranks; tensor divides heads and
// mlp_hidden, and divides or is a multiple of kv_heads; data divides `batch` (0: not yet known, anything goes).
std::vector<MeshShape> possible_meshes(std::int64_t ranks, const ModelConfig& model, std::int64_t batch);

// The mesh asked for (`data` 0: whatever is left of `ranks`), or config_error that names the obstacle and the nearest
// possible meshes. Allocates nothing and communicates with nobody.
MeshShape resolve_mesh(std::int64_t ranks, std::int64_t tensor, std::int64_t data, const ModelConfig& model,
                       std::int64_t batch);

class Mesh {
 public:
  // `control` moves host memory, `world` the memory of tensors; on CPU they are one. Both outlive the mesh. Collective.
  Mesh(Communicator& control, Communicator& world, MeshShape shape);

  const MeshShape& shape() const { return shape_; }
  int data_rank() const { return control_.rank() / shape_.tensor; }
  int tensor_rank() const { return control_.rank() % shape_.tensor; }

  Communicator& control() { return control_; }
  Communicator& world() { return world_; }
  Communicator& data() { return *data_; }
  Communicator& tensor() { return *tensor_; }
  Communicator& tensor_control() { return tensor_control_ ? *tensor_control_ : *tensor_; }
  // `count` divides the tensor axis. Collective over the tensor axis the first time it is asked for.
  Communicator& replicas(std::int64_t count);

 private:
  Communicator& control_;
  Communicator& world_;
  MeshShape shape_;
  std::unique_ptr<Communicator> data_;
  std::unique_ptr<Communicator> tensor_;
  std::unique_ptr<Communicator> tensor_control_;  // null where tensors are in host memory
  std::map<std::int64_t, std::unique_ptr<Communicator>> replicas_;
};

}  // namespace longwave
