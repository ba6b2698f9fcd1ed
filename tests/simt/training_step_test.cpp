// How a training step uses the device: one wait, pinned memory, nothing taken or searched for after the first steps.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/cuda/cuda_backend.h"
#include "core/backend/host_memory.h"
#include "core/base/error.h"
#include "parallel/checkpoint/snapshot.h"
#include "parallel/data_parallel.h"
#include "parallel/device_communicator.h"
#include "parallel/mpi/mpi_communicator.h"
#include "tests/simt/counters.h"
#include "tests/simt/queue.h"

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
  Transformer model;
  std::unique_ptr<DataParallel> optimizer;
  HostMemory tokens{backend, micro_batches * micro_tokens * sizeof(std::int32_t)};

  explicit TrainingRank(const PositionConfig& position = {})
      : model(tiny_model(), position, {.compute = DType::bf16, .seed = 3}, &backend, alone) {
    model.initialise();
    model.prepare_training(1, micro_tokens);
    optimizer = std::make_unique<DataParallel>(model.parameters(), backend, mesh, DataParallelOptions{true, 16 << 10, 3});
    optimizer->initialise(3);
    for (std::int64_t i = 0; i < micro_batches * micro_tokens; ++i) ids()[i] = static_cast<std::int32_t>(i * i % 40);
  }

  std::int32_t* ids() const { return tokens.as<std::int32_t>(); }
  void queue() {
    optimizer->begin_step();
    model.zero_gradients();
    for (std::int64_t i = 0; i < micro_batches; ++i) {
      const std::int32_t* own = ids() + i * micro_tokens;
      model.accumulate(own, own, nullptr, i + 1 == micro_batches ? DataParallel::gradients_ready : nullptr, optimizer.get());
    }
    optimizer->queue_results(model.totals());
  }
  StepResult update(float learning_rate) {
    const StepResult result = optimizer->read_results();
    AdamWStep adamw;
    adamw.learning_rate = learning_rate;
    adamw.epsilon = 1e-8f;
    adamw.gradient_scale = result.gradient_scale(1);
    optimizer->apply(adamw);
    model.parameters_changed();
    return result;
  }
  StepResult step(float learning_rate = 1e-3f) {
    queue();
    return update(learning_rate);
  }
  // A batch and a learning rate of its own for every step.
  float begin(int step) const {
    for (std::int64_t i = 0; i < micro_batches * micro_tokens; ++i) ids()[i] = static_cast<std::int32_t>((i * i + 3 * step) % 40);
    return 1e-3f / static_cast<float>(step + 1);
  }
};

constexpr int steps = 4;

// Loss and gradient norm of every step.
std::vector<std::pair<double, double>> steps_one_by_one() {
  TrainingRank run;
  std::vector<std::pair<double, double>> results;
  for (int step = 0; step < steps; ++step) {
    const StepResult result = run.step(run.begin(step));
    results.emplace_back(result.loss, result.grad_norm);
  }
  return results;
}

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

TEST(RecordedStep, GivesTheSameBitsWithOneLaunch) {
  const std::vector<std::pair<double, double>> expected = steps_one_by_one();
  TrainingRank run;
  for (int step = 0; step < steps; ++step) {
    const float learning_rate = run.begin(step);
    if (step == 0) {
      run.queue();
    } else {
      if (step == 1) {
        EXPECT_GT(run.backend.record([&] { run.queue(); }), 100u);
      }
      simt::counters() = {};
      run.backend.replay();
      EXPECT_EQ(simt::counters().graph_launches, 1);
      EXPECT_EQ(simt::counters().queued, 0);
    }
    const StepResult result = run.update(learning_rate);
    EXPECT_EQ(result.loss, expected[static_cast<std::size_t>(step)].first) << "step " << step;
    EXPECT_EQ(result.grad_norm, expected[static_cast<std::size_t>(step)].second) << "step " << step;
    EXPECT_GT(run.model.pass_times().forward, 0);
    EXPECT_GT(run.model.pass_times().backward, 0);
    if (step == 0) continue;
    EXPECT_EQ(simt::counters().waits, 1);
    EXPECT_EQ(simt::counters().pageable_copies + simt::counters().allocations + simt::counters().searches, 0);
  }
}

// The first step changes nothing, as one whose gradients are not finite: what is recorded next finds tables that are up to date.
TEST(RecordedStep, SeesThePositionsOfTheStepBefore) {
  PositionConfig position;
  position.learnable = true;
  const auto losses = [&](bool records) {
    TrainingRank run(position);
    std::vector<double> values;
    for (int step = 0; step < steps; ++step) {
      const float learning_rate = run.begin(step);
      if (step == 0 || !records) {
        run.queue();
      } else {
        if (step == 1) run.backend.record([&] { run.queue(); });
        run.backend.replay();
      }
      if (step == 0) {
        run.optimizer->read_results();
      } else {
        values.push_back(run.update(learning_rate).loss);
      }
    }
    return values;
  };
  EXPECT_EQ(losses(true), losses(false));
}

TEST(RecordedStep, IsForgottenWhenScratchMoves) {
  TrainingRank run;
  if (run.world->size() == 1) return;
  run.step();
  run.backend.record([&] { run.queue(); });
  void* large = run.backend.allocate(1 << 20);
  EXPECT_TRUE(run.backend.recorded());
  run.mesh.data().all_reduce(large, (1 << 20) / 4, Element::f32, Reduction::sum);
  EXPECT_FALSE(run.backend.recorded());
  EXPECT_GT(run.backend.record([&] { run.queue(); }), 100u);
  run.backend.replay();
  EXPECT_TRUE(run.update(1e-3f).finite);
  run.backend.release(large);
}

TEST(RecordedStep, ThatCannotBeLeavesTheStepsAsTheyWere) {
  const std::vector<std::pair<double, double>> expected = steps_one_by_one();
  TrainingRank run;
  for (int step = 0; step < steps; ++step) {
    const float learning_rate = run.begin(step);
    // Refused at once, on the way, and for what the work does.
    setenv("LONGWAVE_SIMT_CAPTURE_LIMIT", step == 1 ? "0" : step == 2 ? "150" : "1000000", 1);
    if (step > 0) {
      try {
        run.backend.record([&] {
          run.queue();
          if (step > 2) run.backend.synchronize();
        });
        ADD_FAILURE() << "recorded in step " << step;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::configuration);
        EXPECT_NE(std::string(error.what()).find("no CUDA graph: "), std::string::npos) << error.what();
      }
      EXPECT_FALSE(run.backend.recorded());
      run.optimizer->abandon_step();
    }
    const StepResult result = run.step(learning_rate);
    EXPECT_EQ(result.loss, expected[static_cast<std::size_t>(step)].first) << "step " << step;
    EXPECT_EQ(result.grad_norm, expected[static_cast<std::size_t>(step)].second) << "step " << step;
  }
  unsetenv("LONGWAVE_SIMT_CAPTURE_LIMIT");
}

// NCCL does not give up a communicator while a graph has its operations; the emulated one ends the process.
TEST(RecordedStep, IsForgottenBeforeALostCommunicatorIsAborted) {
  for (const bool recording : {false, true}) {
    TrainingRank run;
    if (run.world->size() == 1) return;
    run.step();
    if (!recording) {
      run.backend.record([&] { run.queue(); });
      run.backend.replay();
      run.update(1e-3f);
      simt::enqueue_step(run.backend.stream(), [] { return false; });  // as a collective whose peer is gone
    }
    simt::lose_rank_after(3);
    try {
      recording ? static_cast<void>(run.backend.record([&] { run.queue(); })) : run.backend.synchronize();
      ADD_FAILURE() << "a rank was lost, and all went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::lost) << error.what();
    }
    EXPECT_FALSE(run.backend.recorded());
    simt::reset();
    run.world->barrier();
  }
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
