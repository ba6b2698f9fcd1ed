// How a training step uses the device: one wait, pinned memory, nothing taken or searched for after the first steps.
#include <gtest/gtest.h>

#include "core/backend/cuda/cuda_backend.h"
#include "core/backend/host_memory.h"
#include "parallel/checkpoint/snapshot.h"
#include "parallel/data_parallel.h"
#include "parallel/device_communicator.h"
#include "parallel/mpi/mpi_communicator.h"
#include "tests/simt/counters.h"

namespace longwave {
namespace {

ModelConfig tiny_model() {
  ModelConfig model;
  model.layers = 2;
  model.width = 64;
  model.heads = model.kv_heads = 1;
  model.head_dim = 64;
  model.mlp_hidden = 64;
  model.context = 16;
  model.vocabulary = 40;
  return model;
}

constexpr std::int64_t micro_tokens = 16, micro_batches = 3;

// A rank of a data-parallel run.
struct TrainingRank {
  std::unique_ptr<Communicator> world = MpiCommunicator::world();
  CudaBackend backend{world->rank()};
  std::unique_ptr<Communicator> device = make_device_communicator(*world, backend);
  Mesh mesh{*world, *device, {world->size(), 1}};
  TensorGroup alone;
  Transformer model{tiny_model(), {}, {.compute = DType::bf16, .seed = 3}, &backend, alone};
  std::unique_ptr<DataParallel> optimizer;
  HostMemory tokens{backend, micro_batches * micro_tokens * sizeof(std::int32_t)};

  TrainingRank() {
    model.initialise();
    model.prepare_training(1, micro_tokens);
    optimizer = std::make_unique<DataParallel>(model.parameters(), backend, mesh, DataParallelOptions{true, 16 << 10, 3});
    optimizer->initialise(3);
    for (std::int64_t i = 0; i < micro_batches * micro_tokens; ++i) ids()[i] = static_cast<std::int32_t>(i * i % 40);
  }

  std::int32_t* ids() const { return tokens.as<std::int32_t>(); }
  StepResult step() {
    optimizer->begin_step();
    model.zero_gradients();
    for (std::int64_t i = 0; i < micro_batches; ++i) {
      const std::int32_t* own = ids() + i * micro_tokens;
      model.accumulate(own, own, nullptr, i + 1 == micro_batches ? DataParallel::gradients_ready : nullptr, optimizer.get());
    }
    const StepResult result = optimizer->finish_gradients(model.totals());
    AdamWStep adamw;
    adamw.learning_rate = 1e-3f;
    adamw.epsilon = 1e-8f;
    adamw.gradient_scale = result.gradient_scale(1);
    optimizer->apply(adamw);
    model.parameters_changed();
    return result;
  }
};

TEST(TrainingStep, WaitsForTheDeviceOnceAndTakesNothing) {
  TrainingRank run;
  const double first = run.step().loss;
  run.step();
  simt::counters() = {};
  const StepResult result = run.step();
  EXPECT_EQ(result.weight, static_cast<double>(run.world->size() * micro_batches * micro_tokens));
  EXPECT_LT(result.loss, first);
  EXPECT_EQ(simt::counters().waits, 1);
  EXPECT_EQ(simt::counters().pageable_copies, 0);
  EXPECT_EQ(simt::counters().allocations, 0);
  EXPECT_EQ(simt::counters().searches, 0);
}

TEST(TrainingStep, TimesItsPassesOnTheDevice) {
  TrainingRank run;
  run.step();
  const PassTimes times = run.model.pass_times();
  EXPECT_GT(times.forward, 0);
  EXPECT_GT(times.backward, times.forward / 10);
}

TEST(CheckpointCopy, WaitsOnceHoweverManyTensors) {
  TrainingRank run;
  run.step();
  Snapshot snapshot(run.model.parameters(), run.backend, *run.optimizer, run.mesh);
  simt::counters() = {};
  snapshot.capture();
  EXPECT_EQ(simt::counters().waits, 1);
  EXPECT_EQ(simt::counters().pageable_copies, 0);
}

}  // namespace
}  // namespace longwave
