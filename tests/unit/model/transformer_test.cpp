#include "core/model/transformer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/unit/model/tiny_model.h"

namespace longwave {
namespace {

using testing::TinyBatch;
using testing::TinyModel;

TEST(Transformer, ChunkedLossEqualsWholeLoss) {
  TinyModel tiny;
  const TinyBatch batch(tiny);
  std::map<std::int64_t, std::vector<float>> gradients;
  std::map<std::int64_t, double> losses;
  for (const std::int64_t chunk : {1000, 7}) {
    tiny.options.logits_chunk_rows = chunk;
    const auto backend = make_cpu_backend();
    TensorGroup group;
    Transformer model(tiny.model, tiny.position, tiny.options, backend.get(), group);
    model.initialise();
    model.prepare_training(tiny.batch, tiny.length);
    LossTotals totals;
    model.zero_gradients();
    model.forward_backward(batch.tokens.data(), batch.targets.data(), batch.weights.data(), totals);
    losses[chunk] = totals.weighted_loss;
    gradients[chunk] = download(*backend, model.parameters().gradients());
  }
  EXPECT_NEAR(losses[7], losses[1000], 1e-6 * losses[1000]);
  for (std::size_t i = 0; i < gradients[7].size(); ++i) {
    ASSERT_NEAR(gradients[7][i], gradients[1000][i], 1e-5 + 1e-4 * std::fabs(gradients[1000][i])) << i;
  }
}

TEST(Transformer, GradientsAccumulateOverMicroBatches) {
  TinyModel tiny;
  const TinyBatch first(tiny, 3), second(tiny, 4);
  const auto backend = make_cpu_backend();
  TensorGroup group;
  Transformer model(tiny.model, tiny.position, tiny.options, backend.get(), group);
  model.initialise();
  model.prepare_training(tiny.batch, tiny.length);
  LossTotals totals;
  const auto gradients_of = [&](std::initializer_list<const TinyBatch*> batches) {
    model.zero_gradients();
    for (const TinyBatch* batch : batches) {
      model.forward_backward(batch->tokens.data(), batch->targets.data(), batch->weights.data(), totals);
    }
    return download(*backend, model.parameters().gradients());
  };
  const std::vector<float> a = gradients_of({&first}), b = gradients_of({&second}), both = gradients_of({&first, &second});
  for (std::size_t i = 0; i < both.size(); ++i) ASSERT_NEAR(both[i], a[i] + b[i], 1e-5 + 1e-4 * std::fabs(both[i])) << i;
}

TEST(Transformer, ReportsGradientsReadyFromTheEndToTheBeginning) {
  TinyModel tiny;
  const TinyBatch batch(tiny);
  const auto backend = make_cpu_backend();
  TensorGroup group;
  Transformer model(tiny.model, tiny.position, tiny.options, backend.get(), group);
  model.initialise();
  model.prepare_training(tiny.batch, tiny.length);
  struct Seen {
    Transformer* model;
    Backend* backend;
    std::vector<std::int64_t> offsets;
    std::vector<std::vector<float>> snapshots;
  } seen{&model, backend.get(), {}, {}};
  LossTotals totals;
  model.zero_gradients();
  model.forward_backward(
      batch.tokens.data(), batch.targets.data(), batch.weights.data(), totals,
      [](void* context, std::int64_t begin) {
        auto* all = static_cast<Seen*>(context);
        all->offsets.push_back(begin);
        all->snapshots.push_back(download(*all->backend, all->model->parameters().gradients()));
      },
      &seen);
  ASSERT_EQ(seen.offsets.size(), 1u + 2u);
  EXPECT_EQ(seen.offsets.back(), 0);
  // What was reported ready did not change afterwards.
  const std::vector<float> last = seen.snapshots.back();
  for (std::size_t report = 0; report < seen.offsets.size(); ++report) {
    if (report > 0) {
      EXPECT_LT(seen.offsets[report], seen.offsets[report - 1]);
    }
    for (auto i = static_cast<std::size_t>(seen.offsets[report]); i < last.size(); ++i) {
      ASSERT_EQ(seen.snapshots[report][i], last[i]) << i;
    }
  }
}

TEST(Transformer, EvaluatesAPrefixLikeTheWhole) {
  // Causal: what follows a token does not touch its loss, and tables of a longer length start with those of a shorter one.
  TinyModel tiny;
  tiny.batch = 1;
  tiny.length = 60;
  const TinyBatch batch(tiny);
  const auto backend = make_cpu_backend();
  TensorGroup group;
  Transformer model(tiny.model, tiny.position, tiny.options, backend.get(), group);
  model.initialise();
  std::vector<float> whole(60), part(17);
  std::vector<std::int32_t> argmax(60);
  model.prepare_evaluation(1, 60);
  model.evaluate(batch.tokens.data(), batch.targets.data(), 1, 60, whole.data(), argmax.data());
  model.prepare_evaluation(1, 17);
  model.evaluate(batch.tokens.data(), batch.targets.data(), 1, 17, part.data(), nullptr);
  for (std::size_t i = 0; i < part.size(); ++i) EXPECT_NEAR(part[i], whole[i], 1e-4) << i;

  std::vector<float> logits(29);
  model.next_token_logits(batch.tokens.data(), 17, logits.data());
  EXPECT_EQ(std::max_element(logits.begin(), logits.end()) - logits.begin(), argmax[16]);
}

TEST(Transformer, MaskedTargetsHaveNoLossAndNoGradient) {
  TinyModel tiny;
  TinyBatch batch(tiny);
  for (auto& target : batch.targets) target = -1;
  const auto backend = make_cpu_backend();
  TensorGroup group;
  Transformer model(tiny.model, tiny.position, tiny.options, backend.get(), group);
  model.initialise();
  model.prepare_training(tiny.batch, tiny.length);
  LossTotals totals;
  model.zero_gradients();
  model.forward_backward(batch.tokens.data(), batch.targets.data(), batch.weights.data(), totals);
  EXPECT_EQ(totals.weight, 0);
  EXPECT_EQ(totals.weighted_loss, 0);
  for (const float gradient : download(*backend, model.parameters().gradients())) ASSERT_EQ(gradient, 0);
}

TEST(Transformer, PlansWithoutADeviceWhatItTakesWithOne) {
  const TinyModel tiny;
  TensorGroup group;
  const Transformer planned(tiny.model, tiny.position, tiny.options, nullptr, group);
  const MemoryPlan plan = planned.plan_training(4, 13);
  const auto trained = static_cast<std::size_t>(planned.parameters().trained_count());
  EXPECT_EQ(plan.gradients, trained * 4);
  EXPECT_GT(plan.activations, 0u);
  EXPECT_GT(planned.plan_training(8, 13).activations, plan.activations);
}

TEST(Transformer, OverfitsAPage) {
  TinyModel tiny;
  tiny.batch = 4;
  tiny.length = 32;
  tiny.model.context = 32;
  tiny.model.width = 48;
  tiny.model.head_dim = 16;
  tiny.model.mlp_hidden = 96;
  TinyBatch batch(tiny);
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) batch.targets[i] = i + 1 < batch.tokens.size() ? batch.tokens[i + 1] : -1;
  const auto backend = make_cpu_backend();
  TensorGroup group;
  Transformer model(tiny.model, tiny.position, tiny.options, backend.get(), group);
  model.initialise();
  model.prepare_training(tiny.batch, tiny.length);
  ParameterStore& store = model.parameters();
  std::vector<float> moment1(static_cast<std::size_t>(store.trained_count())), moment2(moment1.size());
  const auto flat = [&](std::vector<float>& host) { return Tensor(host.data(), DType::f32, {store.trained_count()}); };
  double loss = 0;
  for (int step = 1; step <= 200; ++step) {
    LossTotals totals;
    model.zero_gradients();
    model.forward_backward(batch.tokens.data(), batch.targets.data(), nullptr, totals);
    loss = totals.weighted_loss / totals.weight;
    AdamWStep update{3e-3f, 0.9f, 0.95f, 1e-8f, 0.0f, static_cast<float>(1 - std::pow(0.9, step)),
                     static_cast<float>(1 - std::pow(0.95, step)), static_cast<float>(1 / totals.weight)};
    backend->adamw(store.values(), store.gradients(), flat(moment1), flat(moment2), store.values(), update);
    model.parameters_changed();
  }
  EXPECT_LT(loss, 0.05);  // log(29) is 3.4
}

TEST(ParameterStore, DrawsAShardAsThePartOfTheWhole) {
  Parameter whole;
  whole.name = "model.layers.0.mlp.down_proj.weight";
  whole.global_shape = whole.shape = {6, 10};
  whole.initialisation = Initialisation::truncated_normal;
  whole.std = 0.02;
  const std::vector<float> all = initial_values(whole, 5);
  Parameter columns = whole;
  columns.split = Split::columns;
  columns.begin = 4;
  columns.end = 7;
  columns.shape = {6, 3};
  const std::vector<float> part = initial_values(columns, 5);
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t column = 0; column < 3; ++column) EXPECT_EQ(part[row * 3 + column], all[row * 10 + 4 + column]);
  }
  Parameter rows = whole;
  rows.split = Split::rows;
  rows.begin = 4;
  rows.end = 8;  // two rows of padding
  rows.shape = {4, 10};
  const std::vector<float> padded = initial_values(rows, 5);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(padded[i], all[40 + i]);
  for (std::size_t i = 20; i < 40; ++i) EXPECT_EQ(padded[i], 0);
  for (const float value : all) EXPECT_LE(std::fabs(value), 0.0600001f);
}

}  // namespace
}  // namespace longwave
