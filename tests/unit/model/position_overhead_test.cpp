// What FoPE costs beside RoPE, counted: the operations and the bytes of a step's forward and backward passes, for the models
// that the presets stand for. The claims are those of core/backend/cuda/README.md.
#include "core/backend/profile/profiling_backend.h"
#include "core/model/transformer.h"
#include "tests/unit/config/job_file.h"
#include "tests/unit/model/idle_backend.h"

namespace longwave {
namespace {

constexpr std::int64_t batch = 8;

Config preset(const std::string& name) {
  const JobFile job("model: {preset: " + name + ", context: 1024}\ndata: {train: books.txt}\ntrain: {steps: 1, batch: 8}\n");
  Config config = load_config(job.path(), {});
  config.model.vocabulary = 257;  // bytes: with the smallest head, FoPE's share is the largest
  return config;
}

// Of forward_backward; the tables are built before.
Work count(const Config& config, PositionKind kind) {
  ProfilingBackend backend(std::make_unique<testing::IdleBackend>());
  PositionConfig position = config.position;
  position.kind = kind;
  TensorGroup alone;
  Transformer model(config.model, position, {.compute = DType::bf16, .seed = 1}, &backend, alone);
  model.prepare_training(batch, config.model.context);
  backend.profile().clear();
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(batch * config.model.context));
  LossTotals totals;
  model.forward_backward(tokens.data(), tokens.data(), nullptr, totals);
  return backend.profile().total().work;
}

class FopeOverhead : public ::testing::TestWithParam<const char*> {
 protected:
  const Config config_ = preset(GetParam());
  const ModelConfig& model_ = config_.model;
  const PositionPlan plan_ = plan_positions(config_.position, model_.head_dim, model_.kv_heads, model_.context);
  // Multiplies and adds of cosine and sine of all the model's lines of one position.
  const double series_operations_ = 4 * static_cast<double>(model_.layers * model_.kv_heads * plan_.columns) *
                                    static_cast<double>(plan_.frequencies.size());
};

TEST_P(FopeOverhead, IsNoOperationAndUnderOnePercentOfTheBytes) {
  const Work fope = count(config_, PositionKind::fope), rope = count(config_, PositionKind::rope);
  EXPECT_EQ(fope.operations, rope.operations);
  // Tables fp32 [KV heads, T, columns] in place of [T, head_dim / 2], cosine and sine, read by both passes of every layer.
  const std::int64_t columns = model_.kv_heads * plan_.columns - model_.head_dim / 2;
  const double extra = 2.0 * 8.0 * static_cast<double>(model_.layers * model_.context * columns);
  EXPECT_DOUBLE_EQ(fope.bytes - rope.bytes, extra);
  const double share = extra / rope.bytes;
  RecordProperty("percent_of_bytes", std::to_string(100 * share));
  EXPECT_GT(share, 0);
  EXPECT_LT(share, 0.01);
}

TEST_P(FopeOverhead, OfBuildingTheTablesIsUnderOnePercentOfOneStep) {
  const double building = series_operations_ * static_cast<double>(model_.context);
  const double share = building / count(config_, PositionKind::rope).operations;
  RecordProperty("percent_of_operations", std::to_string(100 * share));
  EXPECT_LT(share, 0.01);
}

TEST_P(FopeOverhead, OfTheSeriesInTheKernelIsUnderOnePercentOfAForwardPass) {
  TensorGroup alone;
  const Transformer model(model_, config_.position, {.compute = DType::bf16, .seed = 1}, nullptr, alone);
  const double share = series_operations_ / model.forward_operations_per_token(model_.context);
  RecordProperty("percent_of_operations", std::to_string(100 * share));
  EXPECT_LT(share, 0.01);
}

INSTANTIATE_TEST_SUITE_P(Presets, FopeOverhead, ::testing::Values("60m", "180m", "1.2b"));

}  // namespace
}  // namespace longwave
