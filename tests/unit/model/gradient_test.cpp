// Every parameter tensor of every kind of model: the gradient of the loss along a direction in that tensor equals the central
// difference of the loss.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/model/tiny_model.h"

namespace longwave {
namespace {

using testing::TinyBatch;
using testing::TinyModel;

struct Case {
  const char* name;
  void (*change)(TinyModel&);
};

void PrintTo(const Case& value, std::ostream* out) { *out << value.name; }

class Gradients : public ::testing::TestWithParam<Case> {};

double weighted_loss(Transformer& model, const TinyModel& tiny, const TinyBatch& batch) {
  std::vector<float> losses(batch.tokens.size());
  model.evaluate(batch.tokens.data(), batch.targets.data(), tiny.batch, tiny.length, losses.data(), nullptr);
  double sum = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (batch.targets[i] >= 0) sum += static_cast<double>(batch.weights[i]) * losses[i];
  }
  return sum;
}

TEST_P(Gradients, EqualFiniteDifferencesForEveryTensor) {
  TinyModel tiny;
  GetParam().change(tiny);
  const auto backend = make_cpu_backend();
  TensorGroup group;
  Transformer model(tiny.model, tiny.position, tiny.options, backend.get(), group);
  model.initialise();
  model.prepare_training(tiny.batch, tiny.length);
  model.prepare_evaluation(tiny.batch, tiny.length);
  ParameterStore& store = model.parameters();

  // Larger weights than a fresh model's, so that every path carries signal well above fp32 rounding.
  std::vector<float> values = download(*backend, store.values());
  for (float& value : values) value = std::fabs(value) < 0.2f ? value * 12 : value;
  backend->copy_from_host(store.values(), values.data());
  model.parameters_loaded();

  const TinyBatch batch(tiny);
  LossTotals totals;
  model.zero_gradients();
  model.forward_backward(batch.tokens.data(), batch.targets.data(), batch.weights.data(), totals);
  EXPECT_NEAR(totals.weighted_loss, weighted_loss(model, tiny, batch), 1e-4 * totals.weighted_loss);
  const std::vector<float> gradients = download(*backend, store.gradients());

  const RandomKey key(11, "direction");
  int tested = 0;
  for (const Parameter& parameter : store.parameters()) {
    if (parameter.frozen) continue;
    double norm = 0;
    for (std::int64_t i = 0; i < parameter.count(); ++i) norm += std::pow(gradients[static_cast<std::size_t>(parameter.offset + i)], 2);
    ASSERT_GT(norm, 0) << parameter.name << " has no gradient";
    norm = std::sqrt(norm);
    // Half along the gradient, where a missing factor shows, half random, where a missing term shows.
    double slope = 0;
    std::vector<float> direction(static_cast<std::size_t>(parameter.count()));
    for (std::size_t i = 0; i < direction.size(); ++i) {
      const float gradient = gradients[static_cast<std::size_t>(parameter.offset) + i];
      const double random = key.normal(i, static_cast<std::uint64_t>(parameter.offset)) / std::sqrt(static_cast<double>(direction.size()));
      direction[i] = static_cast<float>(gradient / norm + random);
      slope += static_cast<double>(gradient) * direction[i];
    }
    const double step = 4e-3;
    const auto loss_at = [&](double distance) {
      std::vector<float> moved = values;
      for (std::size_t i = 0; i < direction.size(); ++i) {
        moved[static_cast<std::size_t>(parameter.offset) + i] += static_cast<float>(distance) * direction[i];
      }
      backend->copy_from_host(store.values(), moved.data());
      model.parameters_changed();
      return weighted_loss(model, tiny, batch);
    };
    // Fourth-order difference: truncation far below the tolerance.
    const double difference = (8 * (loss_at(step) - loss_at(-step)) - (loss_at(2 * step) - loss_at(-2 * step))) / (12 * step);
    EXPECT_NEAR(slope, difference, 2e-3 * std::fabs(slope) + 2e-3) << parameter.name;
    ++tested;
  }
  EXPECT_GE(tested, 2 * 9 + 2);
}

const Case cases[] = {
    {"fope", [](TinyModel&) {}},
    {"fope_learnable", [](TinyModel& t) { t.position.learnable = true; }},
    {"fope_shared_learnable", [](TinyModel& t) { t.position.learnable = true; t.position.share = PositionShare::model; }},
    {"fope_qk_norm_learnable", [](TinyModel& t) { t.position.learnable = true; t.model.qk_norm = true; }},
    {"fope_paper", [](TinyModel& t) { t.position.cap = PositionCap::none; t.position.zero_phase = 0; }},
    {"rope_tied", [](TinyModel& t) { t.position.kind = PositionKind::rope; t.model.tied = true; }},
    {"rope_qk_norm_multi_query",
     [](TinyModel& t) { t.position.kind = PositionKind::rope; t.model.qk_norm = true; t.model.kv_heads = 1; }},
    {"alibi", [](TinyModel& t) { t.position.kind = PositionKind::alibi; t.model.kv_heads = 4; }},
    {"nope_qk_norm", [](TinyModel& t) { t.position.kind = PositionKind::nope; t.model.qk_norm = true; }},
    {"p_rope", [](TinyModel& t) { t.position.kind = PositionKind::p_rope; t.position.constant_weight = 2; }},
    {"clipped_rope", [](TinyModel& t) { t.position.kind = PositionKind::clipped_rope; t.position.clipped = 2; }},
    {"yarn", [](TinyModel& t) { t.position.kind = PositionKind::yarn; t.position.original_context = t.model.context / 4; }},
    {"one_token_chunks", [](TinyModel& t) { t.options.logits_chunk_rows = 1; }},
};

std::string case_name(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Every, Gradients, ::testing::ValuesIn(cases), case_name);

}  // namespace
}  // namespace longwave
