// Trains or evaluates one model on random tokens, a round at a time, and prints how long each round took. run.sh alternates
// its rounds with those of torch_worker.py, which takes the same arguments and answers in the same lines.
//
//   ready STEPS_A_ROUND MATRIX_RATE_OF_ALL_RANKS PRECISION
//   round SECONDS_A_STEP PROCESSOR_SECONDS_A_STEP    (of rank 0 and its threads: less than it had threads when others ran)
//
// Round n begins when the file go-n exists in --control, and the worker leaves when `stop` does: a rank that waited for the
// others inside MPI would take the processor from whoever is being measured.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "core/backend/cuda/cuda_device.h"
#include "core/backend/matrix_rate.h"
#include "core/backend/memory_rate.h"
#include "core/backend/profile/profiling_backend.h"
#include "core/base/error.h"
#include "core/base/random.h"
#include "core/model/transformer.h"
#include "jobs/profile.h"
#include "parallel/agreement.h"
#include "parallel/data_parallel.h"
#include "parallel/device_communicator.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/mpi/mpi_environment.h"
#include "parallel/tensor_parallel.h"

namespace longwave {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Arguments {
  ModelConfig model;
  std::string position = "fope";
  std::int64_t length = 0;
  std::int64_t batch = 1;  // sequences a step, over all ranks
  bool evaluate = false;
  bool fp32 = false;
  bool cuda = false;
  bool profile = false;
  bool product = false;
  double round_seconds = 1;
  std::string control;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  CLI::App app("Measures one model; see tests/bench/run.sh");
  ModelConfig& m = a.model;
  app.add_option("--layers", m.layers)->required();
  app.add_option("--width", m.width)->required();
  app.add_option("--heads", m.heads)->required();
  app.add_option("--hidden", m.mlp_hidden)->required();
  app.add_option("--vocabulary", m.vocabulary)->required();
  app.add_option("--context", m.context, "Training length")->required();
  app.add_flag("--tied", m.tied);
  app.add_option("--position", a.position)->check(CLI::IsMember({"fope", "rope"}));
  app.add_option("--length", a.length, "Of the sequences measured; default: context");
  app.add_option("--batch", a.batch, "Sequences a step, over all ranks");
  app.add_flag("--evaluate", a.evaluate);
  app.add_flag("--fp32", a.fp32);
  app.add_flag("--cuda", a.cuda, "On the first GPU instead of the CPU");
  app.add_flag("--profile", a.profile, "Print the table of operations at the end");
  app.add_flag("--product", a.product, "A round is 1e12 operations of large matrix products instead of a step");
  app.add_option("--seconds", a.round_seconds, "About, of a round");
  app.add_option("--control", a.control, "Folder of go-N and stop; without it three rounds are run at once");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  m.kv_heads = m.heads;
  m.head_dim = m.width / m.heads;
  if (a.length == 0) a.length = m.context;
  return a;
}

class Worker {
 public:
  Worker(MpiEnvironment& mpi, Communicator& ranks, const Arguments& arguments)
      : arguments_(arguments), ranks_(ranks), first_(ranks.rank() == 0), backend_(make_backend()),
        tensors_(make_device_communicator(ranks, *backend_)), mesh_(ranks, tensors_ ? *tensors_ : ranks, {mpi.size(), 1}),
        shards_(mesh_.tensor(), false), compute_(!arguments.fp32 && backend_->info().has_bf16 ? DType::bf16 : DType::f32),
        model_(arguments.model, position(), {compute_, 1, 0}, backend_.get(), shards_), own_batch_(arguments.batch / mpi.size()) {
    draw_tokens();
    if (arguments_.evaluate) {
      model_.initialise();
      model_.prepare_evaluation(own_batch_, arguments_.length);
      losses_.resize(static_cast<std::size_t>(own_batch_ * arguments_.length));
    } else {
      model_.prepare_training(own_batch_, arguments_.length);
      model_.initialise();
      optimizer_ = std::make_unique<DataParallel>(model_.parameters(), *backend_, mesh_);
      optimizer_->initialise(1);
    }
    step();  // products are chosen, pages touched
    const Clock::time_point start = Clock::now();
    step();
    const double slowest = all_reduce_value(ranks_, seconds_since(start), Reduction::max);
    steps_ = std::max<std::int64_t>(1, std::llround(arguments_.round_seconds / slowest));
  }

  void serve() {
    say(fmt::format("ready {} {:.4e} {}", steps_, rate(), name_of(compute_)));
    if (profile_ != nullptr) profile_->clear();
    double profiled_seconds = 0;
    for (int round = 0; wait_for_round(round); ++round) {
      ranks_.barrier();
      const Clock::time_point start = Clock::now();
      const std::clock_t processor = std::clock();
      const double seconds_a_step = arguments_.product ? 1e12 / rate() : seconds_of_steps();
      const double processor_seconds = static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC;
      profiled_seconds += seconds_since(start);
      say(fmt::format("round {:.6f} {:.6f}", seconds_a_step, processor_seconds / static_cast<double>(steps_)));
    }
    if (profile_ != nullptr && first_) {
      const Profile measured = *profile_;
      const HardwareRates rates = {measure_matrix_rate(*backend_, compute_), measure_memory_rate(*backend_)};
      say(profile_table(measured, rates, profiled_seconds));
    }
  }

 private:
  std::unique_ptr<Backend> make_backend() {
    auto backend = arguments_.cuda ? make_cuda_backend(0) : make_cpu_backend();
    if (!arguments_.profile) return backend;
    auto profiling = std::make_unique<ProfilingBackend>(std::move(backend));
    profile_ = &profiling->profile();
    return profiling;
  }

  PositionConfig position() const {
    PositionConfig config;
    config.kind = arguments_.position == "fope" ? PositionKind::fope : PositionKind::rope;
    return config;
  }

  void draw_tokens() {
    const RandomKey key(1, "bench");
    tokens_.resize(static_cast<std::size_t>(own_batch_ * arguments_.length + 1));
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      tokens_[i] = static_cast<std::int32_t>(key.below(static_cast<std::uint64_t>(arguments_.model.vocabulary), i));
    }
  }

  void step() {
    if (arguments_.evaluate) {
      model_.evaluate(tokens_.data(), tokens_.data() + 1, own_batch_, arguments_.length, losses_.data(), nullptr);
      return;
    }
    optimizer_->begin_step();
    model_.zero_gradients();
    LossTotals totals;
    model_.forward_backward(tokens_.data(), tokens_.data() + 1, nullptr, totals, DataParallel::gradients_ready, optimizer_.get());
    const StepResult result = optimizer_->finish_gradients(totals);
    LONGWAVE_CHECK(result.finite, "loss {}", result.loss);
    optimizer_->apply({.learning_rate = 1e-4f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .weight_decay = 0.1f,
                       .gradient_scale = result.gradient_scale(1)});
    model_.parameters_changed();
  }

  // Of the slowest rank.
  double seconds_of_steps() {
    const Clock::time_point start = Clock::now();
    for (std::int64_t i = 0; i < steps_; ++i) step();
    return all_reduce_value(ranks_, seconds_since(start), Reduction::max) / static_cast<double>(steps_);
  }

  double rate() {
    ranks_.barrier();
    return all_reduce_value(ranks_, measure_matrix_rate(*backend_, compute_, arguments_.cuda ? 8192 : 1024), Reduction::sum);
  }

  bool wait_for_round(int round) const {
    if (arguments_.control.empty()) return round < 3;
    const std::filesystem::path folder(arguments_.control);
    while (!std::filesystem::exists(folder / fmt::format("go-{}", round))) {
      if (std::filesystem::exists(folder / "stop")) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  void say(const std::string& line) const {
    if (!first_) return;
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  const Arguments& arguments_;
  Communicator& ranks_;
  bool first_;
  Profile* profile_ = nullptr;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> tensors_;  // of device memory; null on the CPU
  Mesh mesh_;
  MeshTensorGroup shards_;
  DType compute_;
  Transformer model_;
  std::int64_t own_batch_;
  std::int64_t steps_ = 1;
  std::unique_ptr<DataParallel> optimizer_;
  std::vector<std::int32_t> tokens_;
  std::vector<float> losses_;
};

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) {
  using namespace longwave;
  const Arguments arguments = parse(argc, argv);
  try {
    MpiEnvironment mpi(nullptr, nullptr);
    const auto ranks = MpiCommunicator::world();
    {
      Worker worker(mpi, *ranks, arguments);
      worker.serve();
    }
    mpi.finalize();
  } catch (const Error& error) {
    fmt::print(stderr, "bench_worker: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
