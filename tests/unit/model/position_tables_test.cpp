#include "core/model/position_tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

namespace longwave {
namespace {

ModelConfig sizes() {
  ModelConfig model;
  model.layers = 2;
  model.width = 32;
  model.heads = 2;
  model.kv_heads = 2;
  model.head_dim = 16;
  model.mlp_hidden = 32;
  model.context = 64;
  model.vocabulary = 257;
  return model;
}

// The tables of a fresh model on the CPU.
class BuiltTables {
 public:
  BuiltTables(const PositionConfig& config, std::int64_t length, bool evaluating)
      : backend_(make_cpu_backend()), shard_(sizes(), DType::f32, backend_.get(), group_), tables_(shard_, config) {
    tables_.add_model_parameters(store_);
    for (std::int64_t layer = 0; layer < 2; ++layer) tables_.add_layer_parameters(store_, layer);
    frozen_.resize(store_.frozen_bytes());
    store_.attach({nullptr, DType::f32, {0}}, {}, frozen_.data());
    tables_.initialise(store_, 1);
    Arena counter;
    tables_.plan(counter, length);
    memory_.resize(counter.peak() + Arena::alignment);
    Arena arena(memory_.data(), memory_.size());
    set = tables_.plan(arena, length);
    tables_.build(store_, set, evaluating);
  }

  TableSet set;

 private:
  TensorGroup group_;
  std::unique_ptr<Backend> backend_;
  Shard shard_;
  PositionTables tables_;
  ParameterStore store_;
  std::vector<char> frozen_, memory_;
};

TEST(PositionTables, ScalingIsForEvaluationOnly) {
  PositionConfig config;
  config.kind = PositionKind::rope;
  config.scaling = PositionScaling::interpolate;
  config.scaling_factor = 4;
  const BuiltTables training(config, 9, false), evaluating(config, 9, true);
  EXPECT_NEAR(training.set.tables[0].cosine.as<float>()[8], std::cos(1.0), 1e-6);    // position 1, frequency 1
  EXPECT_NEAR(evaluating.set.tables[0].cosine.as<float>()[8], std::cos(0.25), 1e-6);
}

TEST(PositionTables, YarnsTemperatureReachesEveryPair) {
  PositionConfig config;
  config.kind = PositionKind::p_rope;
  config.fraction = 0.5;
  config.constant_weight = 2;
  config.scaling = PositionScaling::yarn;
  const BuiltTables built(config, 256, true);  // four times the training length
  const auto temperature = static_cast<float>(0.1 * std::log(4.0) + 1);
  EXPECT_FLOAT_EQ(built.set.tables[0].cosine.as<float>()[0], temperature);  // at the origin
  EXPECT_FLOAT_EQ(built.set.tables[0].tail_cosine, temperature);
  EXPECT_FLOAT_EQ(built.set.tables[0].tail_sine, temperature);
}

TEST(PositionTables, OfLayersDifferUnlessTheModelSharesOneSet) {
  PositionConfig config;
  const BuiltTables own(config, 8, false);
  ASSERT_EQ(own.set.tables.size(), 2u);
  EXPECT_NE(own.set.of_layer(0).cosine.as<float>()[0], own.set.of_layer(1).cosine.as<float>()[0]);
  config.share = PositionShare::model;
  const BuiltTables shared(config, 8, false);
  ASSERT_EQ(shared.set.tables.size(), 1u);
  EXPECT_EQ(&shared.set.of_layer(0), &shared.set.of_layer(1));
}

}  // namespace
}  // namespace longwave
