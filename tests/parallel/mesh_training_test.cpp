// Any mesh trains the same model: every mesh of these ranks against one rank alone, on the same batches.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/base/divide.h"
#include "core/base/random.h"
#include "core/model/transformer.h"
#include "parallel/data_parallel.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/tensor_parallel.h"

namespace longwave {
namespace {

constexpr int steps = 20;
constexpr std::int64_t batch = 8;
constexpr std::uint64_t seed = 11;

struct Case {
  std::string name;
  ModelConfig model;
  PositionConfig position;
  DType compute = DType::f32;
  std::int64_t accumulation = 1;   // on one rank alone; fewer micro-batches where the data axis takes sequences
  bool masked_micro_batch = false;  // half of the targets of the first sequence are masked
  bool sequence = true;
  bool shard_optimizer = true;
  // Lower with qk_norm: at 1e-2 such a small model overshoots, and magnifies what the order of additions leaves.
  float learning_rate = 1e-2f;
};

Case base_case(const std::string& name, PositionKind kind = PositionKind::fope) {
  Case made;
  made.name = name;
  made.model = {.layers = 2, .width = 64, .heads = 4, .kv_heads = 4, .head_dim = 16, .mlp_hidden = 96, .context = 33,
                .vocabulary = 257};
  made.position.kind = kind;
  return made;
}

std::vector<Case> cases() {
  std::vector<Case> all = {base_case("Fope"), base_case("Rope", PositionKind::rope), base_case("Alibi", PositionKind::alibi),
                           base_case("Nope", PositionKind::nope), base_case("PRope", PositionKind::p_rope),
                           base_case("ClippedRope", PositionKind::clipped_rope)};
  const auto add = [&all](const std::string& name, auto change) {
    all.push_back(base_case(name));
    change(all.back());
  };
  add("Yarn", [](Case& c) {
    c.position.kind = PositionKind::yarn;
    c.position.original_context = 8;
  });
  add("TwoKvHeads", [](Case& c) { c.model.kv_heads = 2; });
  add("OneKvHeadTiedWithQkNorm", [](Case& c) {
    c.model.kv_heads = 1;
    c.model.tied = true;
    c.model.qk_norm = true;
    c.learning_rate = 3e-3f;
  });
  add("LearnableCoefficientsOfTwoKvHeads", [](Case& c) {
    c.model.kv_heads = 2;
    c.position.learnable = true;
  });
  add("AccumulationOverMaskedMicroBatches", [](Case& c) {
    c.accumulation = 4;
    c.masked_micro_batch = true;
  });
  add("WithoutSequenceParallelism", [](Case& c) {
    c.sequence = false;
    c.model.qk_norm = true;
    c.learning_rate = 3e-3f;
    c.masked_micro_batch = true;
  });
  add("PlainOptimizer", [](Case& c) { c.shard_optimizer = false; });
  add("Bf16", [](Case& c) {
    c.compute = DType::bf16;
    c.learning_rate = 3e-3f;  // at 1e-2 the norm of the gradient moves by 1.2 % with the rounding of activations
  });
  return all;
}

struct Batch {
  std::vector<std::int32_t> tokens, targets;  // [batch, context]
};

// The next token is mostly a function of the last one. All tokens are about as frequent: where a few dominate, steps of this
// learning rate overshoot and make the last bits of the sums visible.
Batch batch_of(const Case& c, int step) {
  const RandomKey key(seed, "tokens", std::to_string(step));
  Batch made;
  for (std::int64_t sequence = 0; sequence < batch; ++sequence) {
    std::int64_t token = sequence * 61 + step;
    for (std::int64_t i = 0; i <= c.model.context; ++i) {
      const double noise = std::abs(key.truncated_normal(3.0, static_cast<std::uint64_t>(sequence * 1000 + i)));
      token = (token * 5 + static_cast<std::int64_t>(noise * 3)) % c.model.vocabulary;
      if (i < c.model.context) made.tokens.push_back(static_cast<std::int32_t>(token));
      if (i > 0) made.targets.push_back(static_cast<std::int32_t>(token));
    }
  }
  if (c.masked_micro_batch) {
    for (std::int64_t i = 0; i < c.model.context; i += 2) made.targets[static_cast<std::size_t>(i)] = -1;
  }
  return made;
}

// One rank of a training run, whatever the mesh.
class Trainer {
 public:
  Trainer(Communicator& world, MeshShape shape, const Case& c)
      : case_(c), backend_(make_cpu_backend()), mesh_(world, world, shape), shards_(mesh_.tensor(), c.sequence),
        transformer_(c.model, c.position, {.compute = c.compute, .seed = seed}, backend_.get(), shards_) {
    own_sequences_ = batch / shape.data;
    micro_batch_ = std::min(batch / c.accumulation, own_sequences_);
    transformer_.initialise();
    transformer_.prepare_training(micro_batch_, c.model.context);
    transformer_.prepare_evaluation(1, c.model.context);
    data_parallel_ = std::make_unique<DataParallel>(transformer_.parameters(), *backend_, mesh_,
                                                    DataParallelOptions{c.shard_optimizer, 16 << 10, 3});
    data_parallel_->initialise(seed);
  }

  StepResult step(int number) {
    const Batch data = batch_of(case_, number);
    LossTotals totals;
    data_parallel_->begin_step();
    transformer_.zero_gradients();
    for (std::int64_t done = 0; done < own_sequences_; done += micro_batch_) {
      const std::int64_t first = (mesh_.data_rank() * own_sequences_ + done) * case_.model.context;
      const bool last = done + micro_batch_ >= own_sequences_;
      transformer_.forward_backward(data.tokens.data() + first, data.targets.data() + first, nullptr, totals,
                                    last ? DataParallel::gradients_ready : nullptr, data_parallel_.get());
    }
    const StepResult result = data_parallel_->finish_gradients(totals);
    AdamWStep adamw;
    adamw.learning_rate = case_.learning_rate;
    adamw.beta1 = 0.9f;
    adamw.beta2 = 0.95f;
    adamw.epsilon = 1e-5f;  // far above the rounding of a gradient: near zero, AdamW would turn that into whole steps
    adamw.weight_decay = 0.1f;
    adamw.bias_correction1 = 1 - std::pow(0.9f, static_cast<float>(number));
    adamw.bias_correction2 = 1 - std::pow(0.95f, static_cast<float>(number));
    adamw.gradient_scale = result.gradient_scale(1.0);
    data_parallel_->apply(adamw);
    transformer_.parameters_changed();
    return result;
  }

  double validation_loss() {
    const Batch data = batch_of(case_, 1000);
    std::vector<float> losses(static_cast<std::size_t>(case_.model.context));
    transformer_.evaluate(data.tokens.data(), data.targets.data(), 1, case_.model.context, losses.data(), nullptr);
    double sum = 0;
    for (float loss : losses) sum += loss;
    return sum / static_cast<double>(losses.size());
  }

  Transformer& transformer() { return transformer_; }
  Backend& backend() { return *backend_; }
  Mesh& mesh() { return mesh_; }

 private:
  Case case_;
  std::unique_ptr<Backend> backend_;
  Mesh mesh_;
  MeshTensorGroup shards_;
  Transformer transformer_;
  std::unique_ptr<DataParallel> data_parallel_;
  std::int64_t own_sequences_ = 0;
  std::int64_t micro_batch_ = 0;
};

class MeshTraining : public testing::TestWithParam<Case> {
 protected:
  std::vector<MeshShape> meshes() const { return possible_meshes(world_->size(), GetParam().model, batch); }

  std::unique_ptr<MpiCommunicator> world_ = MpiCommunicator::world();
  std::unique_ptr<Communicator> alone_ = world_->split(world_->rank(), 0);
};

INSTANTIATE_TEST_SUITE_P(Cases, MeshTraining, testing::ValuesIn(cases()), [](const auto& c) { return c.param.name; });

std::vector<char> bytes_of(Trainer& trainer, std::size_t index) {
  const Tensor value = trainer.transformer().parameters().value(index);
  std::vector<char> bytes(value.bytes());
  trainer.backend().copy_to_host(bytes.data(), value);
  return bytes;
}

// Element by element of the logical matrix: this shard's values are those of one rank alone, bit for bit.
void expect_same_slice(Trainer& trainer, Trainer& alone, std::size_t index) {
  const Parameter& parameter = trainer.transformer().parameters()[index];
  SCOPED_TRACE(parameter.name);
  const Shape& whole = parameter.global_shape;
  const std::vector<char> own = bytes_of(trainer, index);
  const std::vector<char> reference = bytes_of(alone, index);
  std::int64_t row_elements = 1;  // of the logical matrix
  for (int axis = 1; axis < whole.rank; ++axis) row_elements *= whole[axis];
  std::int64_t own_row = 1;
  for (int axis = 1; axis < parameter.shape.rank; ++axis) own_row *= parameter.shape[axis];
  const std::int64_t first_row = parameter.split == Split::rows ? parameter.begin : 0;
  const std::int64_t first_column = parameter.split == Split::columns ? parameter.begin : 0;
  const std::size_t element = size_of(parameter.dtype);
  for (std::int64_t row = 0; row < parameter.shape[0] && first_row + row < whole[0]; ++row) {
    const auto at = static_cast<std::size_t>((first_row + row) * row_elements + first_column) * element;
    ASSERT_EQ(std::memcmp(own.data() + static_cast<std::size_t>(row * own_row) * element, reference.data() + at,
                          static_cast<std::size_t>(own_row) * element), 0) << "row " << row;
  }
}

TEST_P(MeshTraining, StartsFromTheSameBits) {
  Trainer alone(*alone_, {1, 1}, GetParam());
  for (const MeshShape& shape : meshes()) {
    SCOPED_TRACE(fmt::format("{} x {}", shape.data, shape.tensor));
    Trainer trainer(*world_, shape, GetParam());
    const std::size_t count = trainer.transformer().parameters().parameters().size();
    ASSERT_EQ(count, alone.transformer().parameters().parameters().size());
    for (std::size_t index = 0; index < count; ++index) expect_same_slice(trainer, alone, index);
  }
}

TEST_P(MeshTraining, FollowsOneRankAlone) {
  const bool exact = GetParam().compute == DType::f32;
  Trainer alone(*alone_, {1, 1}, GetParam());
  std::vector<StepResult> expected;
  for (int step = 1; step <= steps; ++step) expected.push_back(alone.step(step));
  const double validation_loss = alone.validation_loss();
  EXPECT_LT(expected.back().loss, expected.front().loss - 0.1);
  for (const MeshShape& shape : meshes()) {
    SCOPED_TRACE(fmt::format("{} x {}", shape.data, shape.tensor));
    Trainer trainer(*world_, shape, GetParam());
    for (int step = 1; step <= steps; ++step) {
      const StepResult result = trainer.step(step);
      const StepResult& same = expected[static_cast<std::size_t>(step - 1)];
      EXPECT_EQ(result.weight, same.weight);
      ASSERT_NEAR(result.loss, same.loss, exact ? 1e-5 : 1e-2 * same.loss) << "step " << step;
      ASSERT_NEAR(result.grad_norm, same.grad_norm, (exact ? 1e-4 : 1e-2) * same.grad_norm) << "step " << step;
    }
    // A difference of losses is a relative difference of perplexities.
    EXPECT_NEAR(trainer.validation_loss(), validation_loss, exact ? 1e-4 : 1e-2 * validation_loss);
  }
}

// parallel/README.md: (T-1)/T R W b (8 L + 4) a micro-batch, and three fp32 all_reduces a row for the loss.
TEST_P(MeshTraining, ActivationsTakeTheBytesOfTheFormula) {
  const Case& c = GetParam();
  const std::int64_t shards = world_->size();
  if (shards == 1) return;
  Trainer trainer(*world_, {1, world_->size()}, c);
  trainer.mesh().tensor().reset_traffic();
  trainer.step(1);
  std::int64_t sent = 0;
  for (TrafficKind kind : {TrafficKind::reduce_scatter, TrafficKind::all_gather}) {
    sent += trainer.mesh().tensor().traffic(kind).bytes;
  }
  const std::int64_t rows = batch / c.accumulation * c.model.context;
  const std::int64_t padded = round_up(rows, shards);
  const auto value_bytes = static_cast<std::int64_t>(size_of(c.compute));
  const std::int64_t transfers = 8 * c.model.layers + 4;
  EXPECT_EQ(sent, c.sequence ? c.accumulation * (shards - 1) * padded / shards * c.model.width * value_bytes * transfers : 0);
}

TEST_P(MeshTraining, TheSameMeshGivesTheSameBitsTwice) {
  const MeshShape shape = meshes().back();
  std::vector<std::vector<char>> values[2];
  double norms[2] = {};
  for (int attempt = 0; attempt < 2; ++attempt) {
    Trainer trainer(*world_, shape, GetParam());
    for (int step = 1; step <= 3; ++step) norms[attempt] = trainer.step(step).grad_norm;
    const std::size_t count = trainer.transformer().parameters().parameters().size();
    for (std::size_t index = 0; index < count; ++index) values[attempt].push_back(bytes_of(trainer, index));
  }
  EXPECT_EQ(norms[0], norms[1]);
  EXPECT_EQ(values[0], values[1]);
}

}  // namespace
}  // namespace longwave
