#include "parallel/mesh.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/tensor_parallel.h"

namespace longwave {
namespace {

ModelConfig model_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t mlp_hidden) {
  ModelConfig model;
  model.heads = heads;
  model.kv_heads = kv_heads;
  model.mlp_hidden = mlp_hidden;
  return model;
}

std::string refusal(std::int64_t ranks, std::int64_t tensor, std::int64_t data, const ModelConfig& model, std::int64_t batch) {
  try {
    resolve_mesh(ranks, tensor, data, model, batch);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    return error.what();
  }
  return "accepted";
}

TEST(MeshShape, DataTakesWhatTensorLeaves) {
  EXPECT_EQ(resolve_mesh(8, 2, 0, model_of(8, 4, 96), 16), (MeshShape{4, 2}));
  EXPECT_EQ(resolve_mesh(4, 4, 1, model_of(8, 2, 96), 3), (MeshShape{1, 4}));
  EXPECT_EQ(resolve_mesh(6, 1, 6, model_of(5, 5, 7), 6), (MeshShape{6, 1}));
}

TEST(MeshShape, ImpossibleOnesNameTheNearestPossible) {
  const ModelConfig model = model_of(8, 4, 96);
  EXPECT_EQ(refusal(4, 3, 0, model, 8),
            "parallel.tensor = 3: 4 ranks cannot be cut into groups of 3; nearest on 4 ranks: "
            "parallel.tensor=2 parallel.data=2 or parallel.tensor=4 parallel.data=1 or parallel.tensor=1 parallel.data=4");
  EXPECT_EQ(refusal(6, 3, 0, model, 12),
            "parallel.tensor = 3: model.heads = 8 is not a multiple of it; nearest on 6 ranks: "
            "parallel.tensor=2 parallel.data=3 or parallel.tensor=1 parallel.data=6");
  EXPECT_EQ(refusal(4, 2, 4, model, 8),
            "parallel.data = 4 x parallel.tensor = 2 is 8 ranks, but 4 were started; nearest on 4 ranks: "
            "parallel.tensor=2 parallel.data=2 or parallel.tensor=1 parallel.data=4 or parallel.tensor=4 parallel.data=1");
  EXPECT_EQ(refusal(4, 1, 0, model, 6),
            "parallel.data = 4: train.batch = 6 is not a multiple of it; nearest on 4 ranks: "
            "parallel.tensor=2 parallel.data=2 or parallel.tensor=4 parallel.data=1");
}

TEST(MeshShape, NamesWhatOfTheModelDoesNotDivide) {
  EXPECT_NE(refusal(4, 4, 0, model_of(12, 6, 96), 4).find("model.kv_heads = 6 is neither"), std::string::npos);
  EXPECT_NE(refusal(4, 4, 0, model_of(12, 4, 90), 4).find("model.mlp_hidden = 90"), std::string::npos);
  EXPECT_NE(refusal(2, 0, 0, model_of(12, 4, 90), 4).find("at least 1"), std::string::npos);
  EXPECT_NE(refusal(2, 1, -1, model_of(12, 4, 90), 4).find("auto or at least 1"), std::string::npos);
  EXPECT_NE(refusal(7, 1, 0, model_of(12, 4, 90), 4).find("no mesh of 7 ranks"), std::string::npos);
}

TEST(MeshShape, KvHeadsMayBeFewerThanShards) {
  EXPECT_EQ(possible_meshes(4, model_of(8, 1, 96), 0), (std::vector<MeshShape>{{4, 1}, {2, 2}, {1, 4}}));
  EXPECT_EQ(possible_meshes(4, model_of(8, 2, 96), 0), (std::vector<MeshShape>{{4, 1}, {2, 2}, {1, 4}}));
}

TEST(Mesh, TensorRanksAreAdjacent) {
  auto world = MpiCommunicator::world();
  for (const MeshShape& shape : possible_meshes(world->size(), model_of(12, 12, 12), 0)) {
    Mesh mesh(*world, *world, shape);
    EXPECT_EQ(mesh.tensor().size(), shape.tensor);
    EXPECT_EQ(mesh.data().size(), shape.data);
    EXPECT_EQ(mesh.tensor().rank(), world->rank() % shape.tensor);
    EXPECT_EQ(mesh.data().rank(), world->rank() / shape.tensor);
    const int first = all_reduce_value(mesh.tensor(), -world->rank(), Reduction::max);
    EXPECT_EQ(-first, world->rank() / shape.tensor * shape.tensor);
  }
}

TEST(Mesh, ReplicasAreAdjacentShards) {
  auto world = MpiCommunicator::world();
  Mesh mesh(*world, *world, {1, world->size()});
  EXPECT_EQ(&mesh.replicas(world->size()), &mesh.tensor());
  if (world->size() != 4) return;
  EXPECT_EQ(mesh.replicas(2).size(), 2);
  EXPECT_EQ(all_reduce_value(mesh.replicas(2), world->rank(), Reduction::sum), world->rank() < 2 ? 1 : 5);
  EXPECT_EQ(&mesh.replicas(2), &mesh.replicas(2));
}

TEST(TensorGroup, PaddedRowsSplitEvenlyAndComeBack) {
  auto world = MpiCommunicator::world();
  MeshTensorGroup group(*world, true);
  const std::int64_t rows = 33;
  const std::int64_t width = 5;
  const std::int64_t local_rows = group.local_rows(rows);
  std::vector<float> full(static_cast<std::size_t>(group.padded_rows(rows) * width));
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows * width); ++i) full[i] = static_cast<float>(i);
  std::vector<float> local(static_cast<std::size_t>(local_rows * width));
  Tensor full_rows(full.data(), DType::f32, {group.padded_rows(rows), width});
  Tensor own_rows(local.data(), DType::f32, {local_rows, width});
  group.reduce_scatter(full_rows, own_rows);
  group.all_gather(own_rows, full_rows);
  for (std::size_t i = 0; i < full.size(); ++i) {
    const float expected = i < static_cast<std::size_t>(rows * width) ? static_cast<float>(i) : 0.0f;
    ASSERT_EQ(full[i], expected * static_cast<float>(world->size())) << i;
  }
}

TEST(TensorGroup, SumsAndMaximaOverShards) {
  auto world = MpiCommunicator::world();
  MeshTensorGroup group(*world, false);
  EXPECT_EQ(group.padded_rows(33), 33);
  double sum = group.rank() + 1;
  float maximum = static_cast<float>(-group.rank());
  group.all_reduce_sum({&sum, DType::f64, {1}});
  group.all_reduce_max({&maximum, DType::f32, {1}});
  EXPECT_EQ(sum, group.size() * (group.size() + 1) / 2);
  EXPECT_EQ(maximum, 0.0f);
}

TEST(TensorGroup, PartsThatDoNotMakeTheWholeAreABug) {
  auto world = MpiCommunicator::world();
  MeshTensorGroup group(*world, true);
  std::vector<float> memory(100);
  EXPECT_THROW(group.all_gather({memory.data(), DType::f32, {3}}, {memory.data(), DType::f32, {3 * world->size() + 1}}), Error);
}

}  // namespace
}  // namespace longwave
