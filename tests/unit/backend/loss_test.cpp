#include <algorithm>

#include "tests/unit/backend/device_tensor.h"

namespace longwave {
namespace {

constexpr std::int64_t rows = 65, vocabulary = 257, padded = 320;

// Targets cover every shard, the last id of the vocabulary, and rows without a loss.
Values targets_of_rows() {
  Values targets;
  for (std::int64_t row = 0; row < rows; ++row) targets.push_back(row % 7 == 3 ? -1 : static_cast<double>(row * 97 % vocabulary));
  targets[0] = vocabulary - 1;
  return targets;
}

// The columns [first, first + count) of a [rows, padded] matrix.
Values columns_of(const Values& matrix, std::int64_t first, std::int64_t count) {
  Values part;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = matrix.begin() + row * padded + first;
    part.insert(part.end(), begin, begin + count);
  }
  return part;
}

struct Reference {
  Values loss, argmax, probability;  // probability [rows, padded], 0 in the padding
};

Reference softmax_reference(const Values& logits, const Values& targets) {
  Reference result;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = logits.begin() + row * padded;
    const auto top = std::max_element(begin, begin + vocabulary);
    double sum = 0;
    for (auto logit = begin; logit != begin + vocabulary; ++logit) sum += std::exp(*logit - *top);
    for (std::int64_t i = 0; i < padded; ++i) result.probability.push_back(i < vocabulary ? std::exp(begin[i] - *top) / sum : 0);
    const auto target = static_cast<std::int64_t>(targets[static_cast<std::size_t>(row)]);
    result.loss.push_back(target < 0 ? 0 : std::log(sum) + *top - begin[target]);
    result.argmax.push_back(static_cast<double>(top - begin));
  }
  return result;
}

// One shard's tensors.
struct Shard {
  std::int64_t first, count;
  DeviceTensor logits;
  DeviceTensor maximum{DType::f32, {rows}}, sum_exp{DType::f32, {rows}}, target_logit{DType::f32, {rows}};
  DeviceTensor argmax{DType::i32, {rows}};

  Shard(DType dtype, const Values& whole, std::int64_t begin, std::int64_t columns)
      : first(begin), count(columns), logits(dtype, {rows, columns}, columns_of(whole, begin, columns)) {}
};

class Loss : public testing::TestWithParam<std::tuple<DType, std::int64_t>> {
 protected:
  Backend& backend() { return backend_under_test(); }
  DType dtype() const { return std::get<0>(GetParam()); }
  std::int64_t shard_count() const { return std::get<1>(GetParam()); }

  // Logits with padding columns that would win if they counted, rounded to dtype. The last of ten shards has nothing else.
  Values logits() const {
    Values values = DeviceTensor(dtype(), {rows, padded}, "logits", 5).read();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (static_cast<std::int64_t>(i) % padded >= vocabulary) values[i] = 1000;
    }
    return values;
  }

  // Runs the shards' statistics and combines them as the group would; maximum and sum_exp become the group's.
  std::vector<std::unique_ptr<Shard>> combined(const Values& whole, const DeviceTensor& targets, DeviceTensor& target_logit) {
    std::vector<std::unique_ptr<Shard>> shards;
    const std::int64_t count = padded / shard_count();
    for (std::int64_t begin = 0; begin < padded; begin += count) {
      shards.push_back(std::make_unique<Shard>(dtype(), whole, begin, count));
      Shard& shard = *shards.back();
      backend().logit_statistics(shard.logits, targets, begin, vocabulary, shard.maximum, shard.sum_exp, shard.target_logit,
                                 shard.argmax);
    }
    Values maximum(rows, -1e30), sum(rows), logit(rows);
    for (const auto& shard : shards) {
      const Values own = shard->maximum.read(), own_logit = shard->target_logit.read();
      for (std::size_t row = 0; row < own.size(); ++row) {
        maximum[row] = std::max(maximum[row], own[row]);
        logit[row] += own_logit[row];
      }
    }
    const DeviceTensor group_maximum(DType::f32, {rows}, maximum);
    for (const auto& shard : shards) {
      backend().rescale_sum_exp(shard->maximum, group_maximum, shard->sum_exp);
      const Values own = shard->sum_exp.read();
      for (std::size_t row = 0; row < own.size(); ++row) sum[row] += own[row];
    }
    for (const auto& shard : shards) {
      shard->maximum.write(maximum);
      shard->sum_exp.write(sum);
    }
    target_logit.write(logit);
    return shards;
  }
};

TEST_P(Loss, IsTheCrossEntropyOnAnyNumberOfShards) {
  const Values whole = logits(), target_of = targets_of_rows();
  const DeviceTensor targets(DType::i32, {rows}, target_of), loss(DType::f32, {rows}, "old");
  DeviceTensor target_logit(DType::f32, {rows});
  const auto shards = combined(whole, targets, target_logit);
  backend().token_loss(targets, shards[0]->maximum, shards[0]->sum_exp, target_logit, loss);
  expect_close(loss.read(), softmax_reference(whole, target_of).loss, 1e-6, 4e-6, "loss");
}

TEST_P(Loss, BackwardIsWeightTimesSoftmaxMinusOneHot) {
  const Values whole = logits(), target_of = targets_of_rows();
  const DeviceTensor targets(DType::i32, {rows}, target_of), weights(DType::f32, {rows}, "weights");
  DeviceTensor target_logit(DType::f32, {rows});
  const auto shards = combined(whole, targets, target_logit);
  Values expected = softmax_reference(whole, target_of).probability;
  const Values weight_of = weights.read();
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto target = static_cast<std::int64_t>(target_of[static_cast<std::size_t>(row)]);
    for (std::int64_t i = 0; i < padded; ++i) {
      double& value = expected[static_cast<std::size_t>(row * padded + i)];
      value = target < 0 ? 0 : weight_of[static_cast<std::size_t>(row)] * (value - (i == target ? 1 : 0));
    }
  }
  for (const auto& shard : shards) {
    backend().cross_entropy_backward(shard->logits, targets, shard->first, vocabulary, shard->maximum, shard->sum_exp, weights);
    expect_close(shard->logits.read(), columns_of(expected, shard->first, shard->count), rounding_of(dtype()) + 4e-6, 1e-6,
                 "dlogits");
  }
}

TEST_P(Loss, ArgmaxIsTheLowestGlobalIdOfTheMaximumAndNeverPadding) {
  Values whole = logits();
  for (std::int64_t row = 0; row < rows; row += 2) {  // ties, within and across vectors
    for (std::int64_t column : {row + 1, row + 5, row + 100}) whole[static_cast<std::size_t>(row * padded + column)] = 64;
  }
  const DeviceTensor targets(DType::i32, {rows}, targets_of_rows());
  DeviceTensor target_logit(DType::f32, {rows});
  const std::int64_t count = padded / shard_count();
  Values best(rows, -1e30), id(rows, -1);
  for (std::int64_t begin = 0; begin < padded; begin += count) {
    Shard shard(dtype(), whole, begin, count);
    backend().logit_statistics(shard.logits, targets, begin, vocabulary, shard.maximum, shard.sum_exp, shard.target_logit,
                               shard.argmax);
    const Values maximum = shard.maximum.read(), argmax = shard.argmax.read();
    for (std::size_t row = 0; row < best.size(); ++row) {
      if (maximum[row] > best[row]) best[row] = maximum[row], id[row] = argmax[row];
    }
  }
  EXPECT_EQ(id, softmax_reference(whole, targets_of_rows()).argmax);
}

TEST_P(Loss, NanInALogitMakesTheLossOfItsRowNan) {
  Values whole = logits();
  whole[5 * padded + 7] = std::nan("");
  const DeviceTensor targets(DType::i32, {rows}, targets_of_rows()), loss(DType::f32, {rows});
  DeviceTensor target_logit(DType::f32, {rows});
  const auto shards = combined(whole, targets, target_logit);
  backend().token_loss(targets, shards[0]->maximum, shards[0]->sum_exp, target_logit, loss);
  const Values losses = loss.read();
  EXPECT_TRUE(std::isnan(losses[5]));
  EXPECT_TRUE(std::isfinite(losses[4]) && std::isfinite(losses[6]));
}

INSTANTIATE_TEST_SUITE_P(Backend, Loss, testing::Combine(testing::Values(DType::f32, DType::bf16), testing::Values(1, 2, 5, 10)),
                         [](const auto& instance) {
                           return std::string(name_of(std::get<0>(instance.param))) + "_" +
                                  std::to_string(std::get<1>(instance.param)) + "_shards";
                         });

// A bf16 probability near 1 is 1 or 0.996: the gradient of its row must not come from their difference.
TEST(LossOfAConfidentRow, KeepsItsSmallGradientInBf16) {
  const DeviceTensor logits(DType::bf16, {1, 2}, Values{7, 0}), targets(DType::i32, {1}, Values{0});
  const DeviceTensor maximum(DType::f32, {1}), sum_exp(DType::f32, {1}), target_logit(DType::f32, {1});
  const DeviceTensor weights(DType::f32, {1}, Values{1});
  Backend& backend = backend_under_test();
  backend.logit_statistics(logits, targets, 0, 2, maximum, sum_exp, target_logit, Tensor());
  backend.cross_entropy_backward(logits, targets, 0, 2, maximum, sum_exp, weights);
  const double wrong = 1 / (1 + std::exp(7.0));
  expect_close(logits.read(), {-wrong, wrong}, rounding_of(DType::bf16), 2e-7, "dlogits");
}

TEST(LossTotals, AddUpWeightedLossesOfRowsWithATarget) {
  const DeviceTensor targets(DType::i32, {4}, Values{3, -1, 0, 9}), loss(DType::f32, {4}, Values{1, 50, 2, 4});
  const DeviceTensor weights(DType::f32, {4}, Values{1, 7, 0.5, 0}), totals(DType::f64, {2}, Values{10, 20});
  backend_under_test().loss_totals(targets, loss, weights, totals);
  EXPECT_EQ(totals.read(), (Values{12, 21.5}));
}

}  // namespace
}  // namespace longwave
