// A whole model whose tables are over the limit: it evaluates and learns as with tables, without their memory.
#include <gtest/gtest.h>

#include "core/backend/cuda/cuda_backend.h"
#include "core/model/position_tables.h"
#include "core/model/transformer.h"

namespace longwave {
namespace {

struct Setting {
  const char* name;
  PositionConfig position;
  bool qk_norm;
};

class ModelWithoutTables : public ::testing::TestWithParam<Setting> {};

ModelConfig tiny_model(bool qk_norm) {
  ModelConfig model;
  model.layers = 2;
  model.width = 64;
  model.heads = 2;
  model.kv_heads = 1;
  model.head_dim = 64;
  model.mlp_hidden = 64;
  model.context = 32;
  model.vocabulary = 40;
  model.qk_norm = qk_norm;
  return model;
}

struct Results {
  std::vector<float> losses;  // at 3 times the training length
  LossTotals totals;
  std::vector<float> gradients;
};

Results run(const Setting& setting, std::size_t table_limit) {
  CudaBackend backend(0, table_limit);
  TensorGroup alone;
  Results results;
  const ModelConfig config = tiny_model(setting.qk_norm);
  Transformer model(config, setting.position, {.compute = DType::bf16, .seed = 5}, &backend, alone);
  model.initialise();
  std::vector<std::int32_t> tokens, targets;
  for (std::int32_t i = 0; i < 96; ++i) tokens.push_back(i * i % 40), targets.push_back((i * 7 + 3) % 40);
  model.prepare_evaluation(1, 96);
  results.losses.resize(96);
  model.evaluate(tokens.data(), targets.data(), 1, 96, results.losses.data(), nullptr);
  model.prepare_training(2, 32);
  model.zero_gradients();
  model.forward_backward(tokens.data(), targets.data(), nullptr, results.totals);
  const Tensor gradients = model.parameters().gradients();
  results.gradients.resize(static_cast<std::size_t>(gradients.count()));
  backend.copy_to_host(results.gradients.data(), gradients);
  return results;
}

TEST_P(ModelWithoutTables, ComputesWhatTheModelWithTablesDoes) {
  const Results with = run(GetParam(), CudaBackend::default_position_table_limit), without = run(GetParam(), 0);
  for (std::size_t i = 0; i < with.losses.size(); ++i) EXPECT_NEAR(without.losses[i], with.losses[i], 2e-2) << "token " << i;
  EXPECT_NEAR(without.totals.weighted_loss, with.totals.weighted_loss, 1e-3 * with.totals.weighted_loss);
  double square = 0, difference = 0;
  for (std::size_t i = 0; i < with.gradients.size(); ++i) {
    const double a = static_cast<double>(with.gradients[i]), b = static_cast<double>(without.gradients[i]);
    square += a * a;
    difference += (a - b) * (a - b);
  }
  EXPECT_GT(square, 0);
  EXPECT_LE(difference, 1e-4 * square);
}

PositionConfig kind(PositionKind kind, double scaling = 0) {
  PositionConfig config;
  config.kind = kind;
  if (scaling > 0) config.scaling = PositionScaling::yarn, config.scaling_factor = scaling;
  return config;
}

INSTANTIATE_TEST_SUITE_P(Kinds, ModelWithoutTables,
                         ::testing::Values(Setting{"fope", kind(PositionKind::fope), false},
                                           Setting{"fope_with_norm", kind(PositionKind::fope), true},
                                           Setting{"yarn", kind(PositionKind::rope, 4), false}),
                         [](const auto& setting) { return std::string(setting.param.name); });

TEST(PositionTableLimit, DecidesByTheBytesOfAllLayers) {
  // [1 KV head, length, columns] fp32, cosine and sine, two layers
  PositionConfig position;
  TensorGroup alone;
  const ModelConfig config = tiny_model(false);
  const std::int64_t columns = plan_positions(position, config.head_dim, config.kv_heads, config.context).columns;
  const std::size_t bytes = static_cast<std::size_t>(2 * 2 * 256 * columns) * sizeof(float);
  const auto in_memory = [&](const PositionConfig& chosen, std::size_t limit) {
    CudaBackend backend(0, limit);
    const Shard shard(config, DType::bf16, &backend, alone);
    const PositionTables tables(shard, chosen);
    Arena arena;
    const TableSet set = tables.plan(arena, 256);
    EXPECT_EQ(set.tables.front().positions(), 256);
    return set.in_memory;
  };
  EXPECT_TRUE(in_memory(position, bytes));
  EXPECT_FALSE(in_memory(position, bytes - 1));
  position.learnable = true;
  EXPECT_TRUE(in_memory(position, 0));
}

}  // namespace
}  // namespace longwave
