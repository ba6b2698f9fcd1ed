#include "jobs/plan/calibration.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "core/base/random.h"
#include "core/model/transformer.h"
#include "jobs/device.h"
#include "jobs/plan/absent_group.h"

namespace longwave {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double measured_seconds = 1.2;
constexpr double micro_step_seconds = 1;        // a micro-batch is made smaller to take no longer than about this
constexpr double expected_rate_of_core = 2e11;  // operations a second; only chooses that smaller size

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// One rank's share of a job: a model, and what its optimizer updates.
class CalibratedRank {
 public:
  CalibratedRank(const Config& config, int ranks_at_once)
      : config_(config),
        group_(static_cast<int>(config.parallel.tensor), config.parallel.sequence),
        device_(choose_device(config_, ranks_at_once)),
        model_(config.model, config.position, {device_.compute, config.run.seed, 0}, device_.backend.get(), group_) {
    const double operations = 3 * model_.forward_operations_per_token(config.model.context) *
                              static_cast<double>(config.model.context) / static_cast<double>(config.parallel.tensor);
    const double fitting = micro_step_seconds * expected_rate_of_core * omp_get_max_threads() / operations;
    sequences_ = std::clamp(static_cast<std::int64_t>(fitting), std::int64_t{1}, config.train.micro_batch);
    model_.prepare_training(sequences_, config.model.context);
    model_.initialise();
    draw_tokens();
  }

  std::int64_t sequences() const { return sequences_; }
  double operations_per_sequence() const {
    return 3 * model_.forward_operations_per_token(config_.model.context) * static_cast<double>(config_.model.context);
  }

  void micro_step() {
    LossTotals totals;
    model_.forward_backward(tokens_.data(), tokens_.data() + 1, nullptr, totals);
  }

  // Seconds of a micro-step, the mean over about `measured_seconds`.
  double time_micro_step() {
    const Clock::time_point start = Clock::now();
    int steps = 0;
    do {
      micro_step();
      ++steps;
    } while (seconds_since(start) < measured_seconds);
    return seconds_since(start) / steps;
  }

  // Seconds of an update of the slice that this rank owns, the second of two.
  double time_update() {
    Backend& backend = *device_.backend;
    const ParameterStore& store = model_.parameters();
    const std::int64_t owners = config_.parallel.shard_optimizer ? config_.parallel.data : 1;
    const std::int64_t count = store.trained_count() / owners;
    const Shape slice = {count};
    void* state = backend.allocate(static_cast<std::size_t>(3 * count) * size_of(DType::f32));
    float* first = static_cast<float*>(state);
    double seconds = 0;
    for (int repetition = 0; repetition < 2; ++repetition) {
      const Clock::time_point start = Clock::now();
      backend.adamw({first, DType::f32, slice}, store.gradients().rows(0, count), {first + count, DType::f32, slice},
                    {first + 2 * count, DType::f32, slice}, store.values().rows(0, count), {.epsilon = 1e-8f});
      backend.synchronize();
      seconds = seconds_since(start);
    }
    backend.release(state);
    return seconds;
  }

 private:
  void draw_tokens() {
    const RandomKey key(config_.run.seed, "calibration");
    tokens_.resize(static_cast<std::size_t>(sequences_ * config_.model.context + 1));
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      tokens_[i] = static_cast<std::int32_t>(key.below(static_cast<std::uint64_t>(config_.model.vocabulary), i));
    }
  }

  Config config_;
  AbsentGroup group_;
  ChosenDevice device_;
  Transformer model_;
  std::int64_t sequences_ = 0;
  std::vector<std::int32_t> tokens_;
};

struct Times {
  double micro_step = 0;
  double update = 0;
  double operations_per_sequence = 0;
  std::int64_t sequences = 0;
};

}  // namespace

int ranks_on_this_node(const Config& config) {
  cpu_set_t set;
  CPU_ZERO(&set);
  LONGWAVE_SYSTEM("sched_getaffinity", "this process", sched_getaffinity(0, sizeof set, &set));
  const std::int64_t ranks = config.parallel.tensor * config.parallel.data;
  return static_cast<int>(std::clamp<std::int64_t>(CPU_COUNT(&set), 1, ranks));
}

Calibration calibrate(const Config& config) {
  // Ranks on one node share its memory bandwidth and clock, so one that computes alone would promise too much. Threads stand
  // for the processes: each has its own model, backend and OpenMP team.
  const int ranks = ranks_on_this_node(config);
  std::vector<Times> times(static_cast<std::size_t>(ranks));
  std::vector<std::exception_ptr> failures(times.size());
  std::barrier together(ranks);
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < times.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          CalibratedRank self(config, ranks);
          self.micro_step();  // the first takes longer: pages are touched, products are chosen
          together.arrive_and_wait();
          times[rank].micro_step = self.time_micro_step();
          times[rank].update = self.time_update();
          times[rank].operations_per_sequence = self.operations_per_sequence();
          times[rank].sequences = self.sequences();
        } catch (...) {
          failures[rank] = std::current_exception();
          together.arrive_and_drop();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }

  // Every rank waits for the slowest.
  Calibration result;
  result.ranks_at_once = ranks;
  for (const Times& rank : times) {
    const auto measured = static_cast<double>(rank.sequences);
    const double own_sequences = static_cast<double>(config.train.batch) / static_cast<double>(config.parallel.data);
    const double seconds = rank.micro_step / measured * own_sequences + rank.update;
    if (seconds < result.seconds_per_step) continue;
    result.seconds_per_step = seconds;
    result.sequences = rank.sequences;
    result.operations_per_second =
        rank.operations_per_sequence / static_cast<double>(config.parallel.tensor) * measured / rank.micro_step;
  }
  result.tokens_per_second = static_cast<double>(config.train.batch * config.model.context) / result.seconds_per_step;
  return result;
}

}  // namespace longwave
