// A model small enough to differentiate by hand, with sizes that divide little.
#pragma once

#include <memory>
#include <vector>

#include "core/backend/host_copy.h"
#include "core/base/random.h"
#include "core/model/transformer.h"

namespace longwave::testing {

struct TinyModel {
  ModelConfig model;
  PositionConfig position;
  TransformerOptions options;
  std::int64_t batch = 2;
  std::int64_t length = 13;

  TinyModel() {
    model.layers = 2;
    model.width = 20;
    model.heads = 4;
    model.kv_heads = 2;
    model.head_dim = 8;
    model.mlp_hidden = 28;
    model.context = 13;
    model.vocabulary = 29;
    // A steep grid, so that so short a context keeps more frequencies (3) than FoPE's cap has columns (2).
    position.theta = 10;
    position.floor_cycles = 0.5;
    options.seed = 7;
  }
};

struct TinyBatch {
  std::vector<std::int32_t> tokens, targets;
  std::vector<float> weights;

  explicit TinyBatch(const TinyModel& tiny, std::uint64_t seed = 3) {
    const auto count = static_cast<std::size_t>(tiny.batch * tiny.length);
    const RandomKey key(seed, "test");
    for (std::size_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<std::int32_t>(key.below(static_cast<std::uint64_t>(tiny.model.vocabulary), i, 0)));
      targets.push_back(static_cast<std::int32_t>(key.below(static_cast<std::uint64_t>(tiny.model.vocabulary), i, 1)));
      weights.push_back(static_cast<float>(0.5 + key.uniform(i, 2)));
      if (i % 5 == 2) targets.back() = -1;
    }
  }
};

}  // namespace longwave::testing
