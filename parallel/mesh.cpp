#include "parallel/mesh.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/base/error.h"

namespace longwave {
namespace {

// Why the model cannot be cut into `tensor` shards; empty when it can.
std::string tensor_obstacle(const ModelConfig& model, std::int64_t tensor) {
  if (model.heads % tensor != 0) return fmt::format("model.heads = {} is not a multiple of it", model.heads);
  if (model.kv_heads % tensor != 0 && tensor % model.kv_heads != 0) {
    return fmt::format("model.kv_heads = {} is neither a multiple nor a divisor of it", model.kv_heads);
  }
  if (model.mlp_hidden % tensor != 0) return fmt::format("model.mlp_hidden = {} is not a multiple of it", model.mlp_hidden);
  return {};
}

// The possible meshes nearest to the one asked for, as settings; all of them if they are few.
std::string suggestions(std::vector<MeshShape> meshes, std::int64_t tensor, std::int64_t ranks) {
  if (meshes.empty()) return fmt::format("no mesh of {} ranks fits this model; use another number of ranks", ranks);
  std::stable_sort(meshes.begin(), meshes.end(), [tensor](const MeshShape& a, const MeshShape& b) {
    return std::llabs(a.tensor - tensor) < std::llabs(b.tensor - tensor);
  });
  meshes.resize(std::min<std::size_t>(meshes.size(), 3));
  std::string text = fmt::format("nearest on {} ranks: ", ranks);
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    text += fmt::format("{}parallel.tensor={} parallel.data={}", i == 0 ? "" : " or ", meshes[i].tensor, meshes[i].data);
  }
  return text;
}

}  // namespace

std::vector<MeshShape> possible_meshes(std::int64_t ranks, const ModelConfig& model, std::int64_t batch) {
  std::vector<MeshShape> meshes;
  for (std::int64_t tensor = 1; tensor <= ranks; ++tensor) {
    if (ranks % tensor != 0 || !tensor_obstacle(model, tensor).empty()) continue;
    const std::int64_t data = ranks / tensor;
    if (batch % data == 0) meshes.push_back({static_cast<int>(data), static_cast<int>(tensor)});
  }
  return meshes;
}

MeshShape resolve_mesh(std::int64_t ranks, std::int64_t tensor, std::int64_t data, const ModelConfig& model,
                       std::int64_t batch) {
  LONGWAVE_CHECK(ranks >= 1 && model.heads >= 1 && model.kv_heads >= 1 && model.mlp_hidden >= 1);
  const std::string nearest = suggestions(possible_meshes(ranks, model, batch), tensor, ranks);
  if (tensor < 1) throw config_error("parallel.tensor = {}: must be at least 1; {}", tensor, nearest);
  if (data < 0) throw config_error("parallel.data = {}: must be auto or at least 1; {}", data, nearest);
  if (ranks % tensor != 0) {
    throw config_error("parallel.tensor = {}: {} ranks cannot be cut into groups of {}; {}", tensor, ranks, tensor, nearest);
  }
  if (const std::string obstacle = tensor_obstacle(model, tensor); !obstacle.empty()) {
    throw config_error("parallel.tensor = {}: {}; {}", tensor, obstacle, nearest);
  }
  const std::int64_t left = ranks / tensor;
  if (data != 0 && data != left) {
    throw config_error("parallel.data = {} x parallel.tensor = {} is {} ranks, but {} were started; {}", data, tensor,
                       data * tensor, ranks, nearest);
  }
  if (batch % left != 0) {
    throw config_error("parallel.data = {}: train.batch = {} is not a multiple of it; {}", left, batch, nearest);
  }
  return {static_cast<int>(left), static_cast<int>(tensor)};
}

Mesh::Mesh(Communicator& control, Communicator& world, MeshShape shape) : control_(control), world_(world), shape_(shape) {
  LONGWAVE_CHECK(shape.data * shape.tensor == control.size() && world.size() == control.size() && world.rank() == control.rank(),
                 "{} x {} on {} ranks", shape.data, shape.tensor, control.size());
  tensor_ = world.split(data_rank(), tensor_rank());
  data_ = world.split(tensor_rank(), data_rank());
  if (&world != &control) tensor_control_ = control.split(data_rank(), tensor_rank());
}

Communicator& Mesh::replicas(std::int64_t count) {
  LONGWAVE_CHECK(count >= 1 && shape_.tensor % count == 0, "{} replicas on a tensor axis of {}", count, shape_.tensor);
  if (count == shape_.tensor) return *tensor_;
  std::unique_ptr<Communicator>& group = replicas_[count];
  if (group == nullptr) group = tensor_->split(tensor_rank() / static_cast<int>(count), tensor_rank());
  return *group;
}

}  // namespace longwave
