#include "parallel/data_parallel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "parallel/mpi/mpi_communicator.h"
#include "tests/parallel/small_store.h"

namespace longwave {
namespace {

constexpr std::uint64_t seed = 3;

// Small enough that the store spans several buckets and buckets span parameters.
DataParallelOptions small_buckets(bool shard) { return {.shard_optimizer = shard, .bucket_bytes = 2048, .buckets_in_flight = 2}; }

AdamWStep adamw_step(int step, float scale) {
  AdamWStep adamw;
  adamw.learning_rate = 0.01f;
  adamw.beta1 = 0.9f;
  adamw.beta2 = 0.95f;
  adamw.epsilon = 1e-8f;
  adamw.weight_decay = 0.1f;
  adamw.bias_correction1 = 1 - std::pow(0.9f, static_cast<float>(step));
  adamw.bias_correction2 = 1 - std::pow(0.95f, static_cast<float>(step));
  adamw.gradient_scale = scale;
  return adamw;
}

// One rank of a small training run on one mesh.
struct TrainingRank {
  TrainingRank(Communicator& world, MeshShape shape, DType compute, const DataParallelOptions& options)
      : backend(make_cpu_backend()), mesh(world, world, shape),
        shard(*backend, compute, shape.tensor, mesh.tensor_rank(), shape.tensor == 4 ? 2 : 1) {
    shard.set_initial_values(seed);
    data_parallel = std::make_unique<DataParallel>(shard.store(), *backend, mesh, options);
    data_parallel->initialise(seed);
  }

  StepResult reduce(int step) {
    data_parallel->begin_step();
    shard.set_gradients(mesh.data_rank(), step);
    // As a backward pass would: in pieces, from the end.
    for (std::int64_t begin = shard.store().trained_count(); begin > 300; begin -= 300) {
      DataParallel::gradients_ready(data_parallel.get(), begin);
    }
    return data_parallel->finish_gradients({3.0 * (mesh.data_rank() + 1), 2.0});
  }

  StepResult step(int number) {
    const StepResult result = reduce(number);
    data_parallel->apply(adamw_step(number, result.gradient_scale(1.0)));
    return result;
  }

  std::unique_ptr<Backend> backend;
  Mesh mesh;
  SmallStore shard;
  std::unique_ptr<DataParallel> data_parallel;
};

class DataParallelSuite : public testing::Test {
 protected:
  // Calls `check` on every mesh that these ranks can form.
  template <class Check>
  void on_every_mesh(Check check) {
    for (int tensor = 1; tensor <= world_->size(); ++tensor) {
      if (world_->size() % tensor != 0) continue;
      const MeshShape shape = {world_->size() / tensor, tensor};
      SCOPED_TRACE(fmt::format("{} x {}", shape.data, shape.tensor));
      check(shape);
    }
  }

  std::unique_ptr<MpiCommunicator> world_ = MpiCommunicator::world();
};

TEST_F(DataParallelSuite, SumsEveryGradientOverEverythingThatContributes) {
  on_every_mesh([&](MeshShape shape) {
    for (bool shard : {true, false}) {
      TrainingRank run(*world_, shape, DType::f32, small_buckets(shard));
      run.reduce(1);
      const std::vector<float> gradients = run.shard.gradients();
      for (const OwnedSlice& slice : run.data_parallel->owned_slices()) {
        const std::int64_t flat = run.shard.store()[slice.parameter].offset + slice.begin;
        for (std::int64_t i = 0; i < slice.master.count(); ++i) {
          const double expected = run.shard.total_gradient(slice.parameter, slice.begin + i, shape.data, 1);
          ASSERT_NEAR(gradients[static_cast<std::size_t>(flat + i)], expected, 4e-6)
              << run.shard.store()[slice.parameter].name << " element " << slice.begin + i;
        }
      }
    }
  });
}

// The squares of the logical matrices, each element once, computed from all shards by every rank.
double expected_norm(MeshShape shape, int kv_replicas, int step) {
  auto backend = make_cpu_backend();
  double squares = 0;
  for (int tensor_rank = 0; tensor_rank < shape.tensor; ++tensor_rank) {
    SmallStore shard(*backend, DType::f32, shape.tensor, tensor_rank, kv_replicas);
    for (std::size_t index = 0; index < shard.store().parameters().size(); ++index) {
      const Parameter& parameter = shard.store()[index];
      if (parameter.frozen || tensor_rank % parameter.replicas != 0) continue;
      for (std::int64_t i = 0; i < parameter.count(); ++i) {
        squares += std::pow(shard.total_gradient(index, i, shape.data, step), 2);
      }
    }
  }
  return std::sqrt(squares);
}

TEST_F(DataParallelSuite, NormCountsEveryParameterOnce) {
  on_every_mesh([&](MeshShape shape) {
    const double expected = expected_norm(shape, shape.tensor == 4 ? 2 : 1, 1);
    for (bool shard : {true, false}) {
      TrainingRank run(*world_, shape, DType::f32, small_buckets(shard));
      const StepResult result = run.reduce(1);
      EXPECT_TRUE(result.finite);
      EXPECT_EQ(result.weight, 2.0 * shape.data);
      EXPECT_NEAR(result.loss, 3.0 * (shape.data + 1) / 2 / 2, 1e-14);
      EXPECT_NEAR(result.grad_norm, expected / result.weight, 1e-6 * expected);
    }
  });
}

TEST_F(DataParallelSuite, ShardedOptimizerGivesTheValuesOfThePlainOne) {
  on_every_mesh([&](MeshShape shape) {
    for (DType compute : {DType::f32, DType::bf16}) {
      TrainingRank sharded(*world_, shape, compute, small_buckets(true));
      TrainingRank plain(*world_, shape, compute, small_buckets(false));
      for (int step = 1; step <= 3; ++step) {
        const StepResult a = sharded.step(step);
        const StepResult b = plain.step(step);
        EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-12 * b.grad_norm);
      }
      const std::vector<float> a = sharded.shard.values();
      const std::vector<float> b = plain.shard.values();
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-7 * (1 + std::abs(b[i]))) << name_of(compute) << i;
    }
  });
}

TEST_F(DataParallelSuite, ValuesAreTheSameBitsOnAllThatHoldThem) {
  on_every_mesh([&](MeshShape shape) {
    TrainingRank run(*world_, shape, DType::bf16, small_buckets(true));
    for (int step = 1; step <= 2; ++step) run.step(step);
    std::vector<float> values = run.shard.values();
    std::vector<float> first = values;
    run.mesh.data().broadcast(first.data(), static_cast<std::int64_t>(first.size()), Element::f32, 0);
    EXPECT_EQ(std::memcmp(values.data(), first.data(), values.size() * sizeof(float)), 0);
    for (const Parameter& parameter : run.shard.store().parameters()) {
      if (parameter.frozen || parameter.replicas == 1) continue;
      const float* own = values.data() + parameter.offset;
      std::vector<float> shared(own, own + parameter.count());
      run.mesh.replicas(parameter.replicas).broadcast(shared.data(), parameter.count(), Element::f32, 0);
      EXPECT_EQ(std::memcmp(own, shared.data(), shared.size() * sizeof(float)), 0) << parameter.name;
    }
  });
}

TEST_F(DataParallelSuite, TheSameMeshGivesTheSameBitsTwice) {
  on_every_mesh([&](MeshShape shape) {
    TrainingRank a(*world_, shape, DType::f32, small_buckets(true));
    TrainingRank b(*world_, shape, DType::f32, small_buckets(true));
    for (int step = 1; step <= 2; ++step) EXPECT_EQ(a.step(step).grad_norm, b.step(step).grad_norm);
    EXPECT_EQ(a.shard.values(), b.shard.values());
  });
}

TEST_F(DataParallelSuite, BucketSizeDoesNotChangeTheValues) {
  on_every_mesh([&](MeshShape shape) {
    TrainingRank small(*world_, shape, DType::f32, small_buckets(true));
    TrainingRank large(*world_, shape, DType::f32, {});
    for (int step = 1; step <= 2; ++step) {
      small.step(step);
      large.step(step);
    }
    const std::vector<float> a = small.shard.values();
    const std::vector<float> b = large.shard.values();
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-7 * (1 + std::abs(b[i]))) << i;
  });
}

TEST_F(DataParallelSuite, WeightDecayShrinksOnlyTheParametersMarkedForIt) {
  TrainingRank run(*world_, {world_->size(), 1}, DType::f32, small_buckets(true));
  const std::vector<float> before = run.shard.values();
  run.data_parallel->begin_step();
  run.shard.zero_gradients();
  run.data_parallel->finish_gradients({1, 1});
  run.data_parallel->apply(adamw_step(1, 1));
  const std::vector<float> after = run.shard.values();
  for (const Parameter& parameter : run.shard.store().parameters()) {
    if (parameter.frozen) continue;
    for (std::int64_t i = parameter.offset; i < parameter.offset + parameter.count(); ++i) {
      const float expected = before[static_cast<std::size_t>(i)] * (parameter.decayed ? 1 - 0.01f * 0.1f : 1.0f);
      ASSERT_NEAR(after[static_cast<std::size_t>(i)], expected, 1e-6) << parameter.name;
    }
  }
}

TEST_F(DataParallelSuite, OneNonFiniteGradientIsKnownOnEveryRank) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    on_every_mesh([&](MeshShape shape) {
      TrainingRank run(*world_, shape, DType::f32, small_buckets(true));
      run.data_parallel->begin_step();
      run.shard.zero_gradients();
      if (world_->rank() == world_->size() - 1) {
        run.backend->copy_from_host(run.shard.store().gradient(0).rows(0, 1), std::vector<float>(10, bad).data());
      }
      EXPECT_FALSE(run.data_parallel->finish_gradients({1, 1}).finite);
    });
  }
}

TEST_F(DataParallelSuite, ALossThatIsNotFiniteIsKnownOnEveryRank) {
  TrainingRank run(*world_, {world_->size(), 1}, DType::f32, small_buckets(true));
  run.data_parallel->begin_step();
  run.shard.zero_gradients();
  const double loss = world_->rank() == 0 ? std::numeric_limits<double>::infinity() : 1;
  EXPECT_FALSE(run.data_parallel->finish_gradients({loss, 1}).finite);
}

TEST_F(DataParallelSuite, ABatchWithoutTargetsMovesNothing) {
  TrainingRank run(*world_, {world_->size(), 1}, DType::f32, small_buckets(true));
  run.data_parallel->begin_step();
  run.shard.zero_gradients();
  const StepResult result = run.data_parallel->finish_gradients({0, 0});
  EXPECT_TRUE(result.finite);
  EXPECT_EQ(result.grad_norm, 0);
  EXPECT_EQ(result.gradient_scale(1), 0);
}

TEST(StepResult, ClipsTheNormOfTheMean) {
  const StepResult result = {.weight = 8, .loss = 1, .grad_norm = 4, .finite = true};
  EXPECT_FLOAT_EQ(result.gradient_scale(1), 1.0f / 8 / 4);
  EXPECT_FLOAT_EQ(result.gradient_scale(5), 1.0f / 8);
  EXPECT_FLOAT_EQ(result.gradient_scale(0), 1.0f / 8);
}

TEST_F(DataParallelSuite, SlicesOfTheDataAxisCoverEveryParameterOnce) {
  on_every_mesh([&](MeshShape shape) {
    for (bool shard : {true, false}) {
      TrainingRank run(*world_, shape, DType::bf16, small_buckets(shard));
      std::vector<float> owners(static_cast<std::size_t>(run.shard.store().trained_count()));
      for (const OwnedSlice& slice : run.data_parallel->owned_slices()) {
        const Parameter& parameter = run.shard.store()[slice.parameter];
        ASSERT_LE(slice.begin + slice.master.count(), parameter.count());
        for (std::int64_t i = 0; i < slice.master.count(); ++i) {
          owners[static_cast<std::size_t>(parameter.offset + slice.begin + i)] += 1;
        }
      }
      run.mesh.data().all_reduce(owners.data(), static_cast<std::int64_t>(owners.size()), Element::f32, Reduction::sum);
      for (const Parameter& parameter : run.shard.store().parameters()) {
        if (parameter.frozen) continue;
        for (std::int64_t i = parameter.offset; i < parameter.offset + parameter.count(); ++i) {
          ASSERT_EQ(owners[static_cast<std::size_t>(i)], shard ? 1 : shape.data) << parameter.name;
        }
      }
    }
  });
}

TEST_F(DataParallelSuite, MastersStartUnroundedAndValuesFollowThem) {
  on_every_mesh([&](MeshShape shape) {
    TrainingRank run(*world_, shape, DType::bf16, small_buckets(true));
    const std::vector<float> rounded = run.shard.values();
    for (const OwnedSlice& slice : run.data_parallel->owned_slices()) {
      const std::vector<float> drawn = initial_values(run.shard.store()[slice.parameter], seed);
      std::vector<float> master(static_cast<std::size_t>(slice.master.count()));
      run.backend->copy_to_host(master.data(), slice.master);
      ASSERT_EQ(std::memcmp(master.data(), drawn.data() + slice.begin, master.size() * sizeof(float)), 0);
    }
    // As a loader does: other values into the store, which the masters then overrule.
    run.backend->zero(run.shard.store().values());
    run.data_parallel->values_from_masters();
    EXPECT_EQ(run.shard.values(), rounded);
  });
}

TEST_F(DataParallelSuite, StateFallsWithTheNumberOfDataRanks) {
  on_every_mesh([&](MeshShape shape) {
    for (DType compute : {DType::f32, DType::bf16}) {
      TrainingRank run(*world_, shape, compute, small_buckets(true));
      const std::int64_t trained = run.shard.store().trained_count();
      const std::size_t whole = DataParallel::plan_state_bytes(trained, compute, 1, true);
      const auto most = static_cast<std::size_t>(
          all_reduce_value(*world_, static_cast<std::int64_t>(run.data_parallel->state_bytes()), Reduction::max));
      EXPECT_EQ(whole, static_cast<std::size_t>(trained) * (compute == DType::f32 ? 8 : 12));
      EXPECT_EQ(most, DataParallel::plan_state_bytes(trained, compute, shape.data, true));
      const std::size_t rest = static_cast<std::size_t>(64 * shape.data) * 12;  // one short slice of the last rank
      EXPECT_LE(most, whole / static_cast<std::size_t>(shape.data) + rest);
      TrainingRank plain(*world_, shape, compute, small_buckets(false));
      EXPECT_EQ(plain.data_parallel->state_bytes(), whole);
    }
  });
}

TEST_F(DataParallelSuite, RanksThatDisagreeOnTheLayoutAllRefuse) {
  if (world_->size() == 1) return;
  auto backend = make_cpu_backend();
  Mesh mesh(*world_, *world_, {world_->size(), 1});
  // Rank 0 believes in a tensor axis of 2, the others in one of 1.
  SmallStore shard(*backend, DType::f32, world_->rank() == 0 ? 2 : 1, 0, 1);
  EXPECT_THROW(DataParallel(shard.store(), *backend, mesh), Error);
}

// ---- what parallel/README.md promises about bytes

struct Sent {
  std::int64_t reduce_scatter = 0;
  std::int64_t all_gather = 0;
  std::int64_t all_reduce = 0;
  std::int64_t broadcast = 0;
};

// Sent by all ranks along the data axis; the tensor axis is 1 here.
Sent bytes_of_a_step(TrainingRank& run) {
  Communicator& data = run.mesh.data();
  data.reset_traffic();
  run.step(1);
  const auto sum = [&](TrafficKind kind) {
    return all_reduce_value(run.mesh.control(), data.traffic(kind).bytes, Reduction::sum);
  };
  return {sum(TrafficKind::reduce_scatter), sum(TrafficKind::all_gather), sum(TrafficKind::all_reduce),
          sum(TrafficKind::broadcast)};
}

TEST_F(DataParallelSuite, BytesOfAStepFollowTheFormulas) {
  for (DType compute : {DType::f32, DType::bf16}) {
    const int data = world_->size();
    TrainingRank sharded(*world_, {data, 1}, compute, small_buckets(true));
    const std::int64_t trained = sharded.shard.store().trained_count();
    const std::int64_t rest = data == 1 ? 0 : trained % (64 * data);
    const std::int64_t even = trained - rest;
    const Sent sent = bytes_of_a_step(sharded);
    const auto value_bytes = static_cast<std::int64_t>(size_of(compute));
    EXPECT_EQ(sent.reduce_scatter, (data - 1) * even * 4);
    EXPECT_EQ(sent.all_gather, (data - 1) * even * value_bytes);
    EXPECT_EQ(sent.broadcast, (data - 1) * rest * value_bytes);

    TrainingRank plain(*world_, {data, 1}, compute, small_buckets(false));
    const Sent plain_sent = bytes_of_a_step(plain);
    // Buckets of 2 KiB go in one stage, where every rank sends all of it to every other.
    EXPECT_EQ(plain_sent.all_reduce, data * (data - 1) * trained * 4);
    EXPECT_EQ(plain_sent.reduce_scatter + plain_sent.all_gather + plain_sent.broadcast, 0);
  }
}

}  // namespace
}  // namespace longwave
