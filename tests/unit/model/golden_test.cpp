// A whole model step against tests/golden/reference.py: another implementation, in NumPy and fp64, with complex-step
// derivatives. Weights are the same hash of (name, index) on both sides; the golden file holds results only.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/model/tensor_group.h"
#include "core/model/transformer.h"

namespace longwave {
namespace {

using nlohmann::json;

constexpr double tolerance = 5e-5;  // relative, of fp32 through two layers

// Values in [-1, 1) for elements 0 .. count - 1 of `name`: FNV-1a of the name, then a multiplicative hash.
std::vector<double> pattern(const std::string& name, std::int64_t count) {
  std::uint32_t seed = 2166136261u;
  for (unsigned char byte : name) seed = (seed ^ byte) * 16777619u;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t z = static_cast<std::uint32_t>(i + 1) * 2654435761u + seed;
    z ^= z >> 16;
    z *= 2246822519u;
    z ^= z >> 13;
    values[i] = z / 2147483648.0 - 1;
  }
  return values;
}

std::vector<std::int32_t> integers(const std::string& name, std::int64_t count, std::int32_t bound) {
  std::vector<std::int32_t> values;
  for (double x : pattern(name, count)) values.push_back(static_cast<std::int32_t>(std::floor((x + 1) / 2 * bound)));
  return values;
}

std::vector<float> weights_of(const Parameter& parameter) {
  std::vector<double> values = pattern(parameter.name, parameter.global_shape.count());
  std::vector<float> weights;
  for (double x : values) {
    const bool gain = parameter.name.ends_with("norm.weight");
    const bool coefficient = parameter.name.find(".position.") != std::string::npos;
    weights.push_back(static_cast<float>(gain ? 1 + 0.2 * x : coefficient ? 0.1 * x : 0.4 * x));
    if (!coefficient) continue;
    const auto e = static_cast<std::int64_t>(weights.size() - 1);
    const std::int64_t rows = parameter.global_shape[1], columns = parameter.global_shape[2];
    if (e / columns % rows == e % columns) weights.back() = static_cast<float>(1 + 0.1 * x);
  }
  return weights;
}

ModelConfig model_of(const json& given) {
  ModelConfig model;
  model.layers = given["layers"];
  model.width = given["width"];
  model.heads = given["heads"];
  model.kv_heads = given["kv_heads"];
  model.head_dim = given["head_dim"];
  model.mlp_hidden = given["mlp_hidden"];
  model.context = given["context"];
  model.vocabulary = given["vocabulary"];
  model.tied = given["tied"];
  model.qk_norm = given["qk_norm"];
  model.norm_epsilon = given["norm_epsilon"];
  return model;
}

PositionConfig position_of(const json& given) {
  PositionConfig position;
  for (PositionKind kind :
       {PositionKind::fope, PositionKind::rope, PositionKind::alibi, PositionKind::nope, PositionKind::p_rope,
        PositionKind::yarn}) {
    if (given["kind"] == name_of(kind)) position.kind = kind;
  }
  position.cap = given.value("cap", "quarter") == "none" ? PositionCap::none : PositionCap::quarter;
  position.zero_phase = given.value("zero_phase", 1.0);
  position.share = given.value("share", "layer") == "model" ? PositionShare::model : PositionShare::layer;
  position.learnable = given.value("learnable", false);
  position.fraction = given.value("fraction", 1.0);
  position.constant_weight = given.value("constant_weight", 1.0);
  position.original_context = given.value("original_context", 0);
  return position;
}

void expect_close(double found, double expected, double scale, const std::string& what) {
  EXPECT_NEAR(found, expected, tolerance * std::max(std::abs(expected), scale)) << what;
}

struct Batch {
  std::vector<std::int32_t> tokens, targets;
  std::vector<float> weights;
};

Batch batch_of(const json& golden) {
  const std::int64_t count = golden["batch"].get<std::int64_t>() * golden["length"].get<std::int64_t>();
  const std::int32_t vocabulary = golden["model"]["vocabulary"];
  Batch batch{integers("tokens", count, vocabulary), integers("targets", count, vocabulary),
              std::vector<float>(static_cast<std::size_t>(count), 1.0f)};
  const std::vector<std::int32_t> mask = integers("mask", count, 3), weights = integers("weights", count, 4);
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (golden["masked"] && mask[i] == 0) batch.targets[i] = -1;
    if (golden["weighted"]) batch.weights[i] = static_cast<float>(1 + weights[i]);
  }
  return batch;
}

struct GoldenCase {
  json values;
  std::string name() const { return values["name"]; }
};

// What gtest prints of a case.
void PrintTo(const GoldenCase& golden, std::ostream* out) { *out << golden.name(); }

std::vector<GoldenCase> golden_cases() {
  std::ifstream file(LONGWAVE_SOURCE_DIR "/tests/golden/model_step.json");
  std::vector<GoldenCase> cases;
  const json golden = json::parse(file);
  for (const json& values : golden.at("cases")) cases.push_back(GoldenCase{values});
  return cases;
}

class GoldenStep : public ::testing::TestWithParam<GoldenCase> {
 protected:
  GoldenStep()
      : golden_(GetParam().values), backend_(make_cpu_backend()),
        model_(model_of(golden_["model"]), position_of(golden_["position"]), {}, backend_.get(), group_) {
    model_.initialise();  // the kept frequencies are the model's own
    ParameterStore& store = model_.parameters();
    for (std::size_t index = 0; index < store.parameters().size(); ++index) {
      if (store[index].dtype == DType::f64) continue;
      std::vector<float> values = weights_of(store[index]);
      values.resize(static_cast<std::size_t>(store[index].count()), 0.0f);  // rows of the padded vocabulary
      backend_->copy_from_host(store.value(index), values.data());
    }
    model_.parameters_loaded();
  }

  void expect_gradient(const std::string& name, const json& expected) {
    const ParameterStore& store = model_.parameters();
    const std::size_t index = store.find(name);
    std::vector<float> gradient(static_cast<std::size_t>(store[index].count()));
    backend_->copy_to_host(gradient.data(), store.gradient(index));
    const std::vector<double> direction = pattern("direction", store[index].global_shape.count());
    const double norm = expected["norm"];
    double squares = 0, pattern_sum = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      squares += static_cast<double>(gradient[i]) * gradient[i];
      if (i < direction.size()) pattern_sum += gradient[i] * direction[i];
    }
    expect_close(std::sqrt(squares), norm, 0, name + " norm");
    expect_close(pattern_sum, expected["pattern_sum"], norm, name + " sum along a pattern");
    for (const json& entry : expected["entries"]) {
      expect_close(gradient[entry[0].get<std::size_t>()], entry[1], norm / std::sqrt(static_cast<double>(direction.size())),
                   fmt::format("{} element {}", name, entry[0].get<std::size_t>()));
    }
    squares_ += squares;
  }

  const json& golden_;
  std::unique_ptr<Backend> backend_;
  TensorGroup group_;
  Transformer model_;
  double squares_ = 0;  // of all gradients
};

TEST_P(GoldenStep, LossAndEveryGradientAgreeWithTheReference) {
  const json& expected = golden_["expected"];
  const Batch batch = batch_of(golden_);
  model_.prepare_training(golden_["batch"], golden_["length"]);
  model_.zero_gradients();
  LossTotals totals;
  model_.forward_backward(batch.tokens.data(), batch.targets.data(), batch.weights.data(), totals);
  expect_close(totals.weighted_loss, expected["weighted_loss"], 0, "loss");
  EXPECT_EQ(totals.weight, expected["weight"].get<double>());

  for (const auto& [name, gradient] : expected["gradients"].items()) expect_gradient(name, gradient);
  expect_close(std::sqrt(squares_), expected["gradient_norm"], 0, "gradient norm");
  for (const Parameter& parameter : model_.parameters().parameters()) {
    EXPECT_EQ(expected["gradients"].contains(parameter.name), !parameter.frozen) << parameter.name;
  }
}

TEST_P(GoldenStep, LossOfEveryTokenAgreesWithTheReferenceInEvaluation) {
  const json& expected = golden_["expected"];
  const Batch batch = batch_of(golden_);
  const std::int64_t sequences = golden_["batch"], length = golden_["length"];
  model_.prepare_evaluation(sequences, length);
  std::vector<float> losses(batch.tokens.size());
  model_.evaluate(batch.tokens.data(), batch.targets.data(), sequences, length, losses.data(), nullptr);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    expect_close(losses[i], expected["losses"][i], batch.targets[i] < 0 ? 0 : 1, fmt::format("token {}", i));
  }
}

TEST_P(GoldenStep, LogitsAgreeWithTheReference) {
  const Batch batch = batch_of(golden_);
  model_.prepare_evaluation(1, golden_["length"]);
  for (const json& expected : golden_["expected"]["logits"]) {
    std::vector<float> logits(expected["values"].size());
    const std::int64_t position = expected["position"];
    model_.next_token_logits(batch.tokens.data(), position + 1, logits.data());
    for (std::size_t id = 0; id < logits.size(); ++id) {
      expect_close(logits[id], expected["values"][id], 1, fmt::format("logit {} at position {}", id, position));
    }
  }
}

std::string case_name(const ::testing::TestParamInfo<GoldenCase>& info) {
  std::string name = info.param.name();
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenStep, ::testing::ValuesIn(golden_cases()), case_name);

}  // namespace
}  // namespace longwave
