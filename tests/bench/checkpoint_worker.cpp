// Saves and loads checkpoints of one model on request: a line in, a line out. Started by checkpoint.sh.
//
//   ready BYTES                          of a checkpoint
//   save ASYNC VERIFY -> saved STEP SECONDS STALL_SECONDS
//   load STEP         -> loaded SECONDS  checks every byte, then puts all of it into the model and the optimizer
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <thread>

#include "core/model/transformer.h"
#include "parallel/checkpoint/checkpointer.h"
#include "parallel/checkpoint/restore.h"
#include "parallel/checkpoint/step_directory.h"
#include "parallel/checkpoint/verification.h"
#include "parallel/data_parallel.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/mpi/mpi_environment.h"
#include "parallel/tensor_parallel.h"

namespace longwave {
namespace {

using Clock = std::chrono::steady_clock;

class Worker {
 public:
  Worker(Communicator& ranks, const ModelConfig& model, std::string folder)
      : folder_(std::move(folder)), ranks_(ranks), mesh_(ranks, ranks, {ranks.size(), 1}), shards_(mesh_.tensor(), false),
        backend_(make_cpu_backend()), model_(model, {}, {DType::bf16, 1, 0}, backend_.get(), shards_) {
    model_.prepare_training(1, model.context);
    model_.initialise();
    optimizer_ = std::make_unique<DataParallel>(model_.parameters(), *backend_, mesh_);
    optimizer_->initialise(1);
    for (const OwnedSlice& slice : optimizer_->owned_slices()) {  // zeros might be cheaper to store
      backend_->copy(slice.master, slice.moment1);
      backend_->copy(slice.master, slice.moment2);
    }
    say(fmt::format("ready {}", snapshot().bytes()));
  }

  void serve() {
    std::string command;
    while (std::cin >> command) {
      std::int64_t step = 0;
      bool async = false, verify = false;
      if (command == "save" && std::cin >> async >> verify) {
        save(async, verify);
      } else if (command == "load" && std::cin >> step) {
        load(step);
      } else {
        throw config_error("'{}' is no request; see the top of checkpoint_worker.cpp", command);
      }
    }
  }

 private:
  Snapshot snapshot() { return {model_.parameters(), *backend_, *optimizer_, mesh_}; }

  // An asynchronous save goes on behind a main thread that has nothing else to do.
  void save(bool async, bool verify) {
    Checkpointer checkpointer({folder_, async, verify, 1000, 0, nullptr}, snapshot(), ranks_, mesh_.shape());
    CheckpointFacts facts;
    facts.step = ++step_;
    std::optional<SaveResult> result = checkpointer.start(std::move(facts));
    while (!result) {
      while (checkpointer.busy()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      result = checkpointer.advance();
    }
    if (result->failure) throw Error(*result->failure);
    say(fmt::format("saved {} {:.6f} {:.6f}", step_, result->seconds, result->stall_seconds));
  }

  void load(std::int64_t step) {
    const Clock::time_point start = Clock::now();
    const auto reader = open_verified(folder_ + "/" + step_name(step), ranks_);
    restore(*reader, model_, *backend_, *optimizer_, ranks_, true);
    say(fmt::format("loaded {:.6f}", std::chrono::duration<double>(Clock::now() - start).count()));
  }

  static void say(const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  std::string folder_;
  Communicator& ranks_;
  Mesh mesh_;
  MeshTensorGroup shards_;
  std::unique_ptr<Backend> backend_;
  Transformer model_;
  std::unique_ptr<DataParallel> optimizer_;
  std::int64_t step_ = 0;
};

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) {
  using namespace longwave;
  ModelConfig model;
  std::string folder;
  CLI::App app("Saves and loads checkpoints; see tests/bench/checkpoint.sh");
  app.add_option("--layers", model.layers)->required();
  app.add_option("--width", model.width)->required();
  app.add_option("--heads", model.heads)->required();
  app.add_option("--hidden", model.mlp_hidden)->required();
  app.add_option("--vocabulary", model.vocabulary)->required();
  app.add_option("FOLDER", folder, "Where the checkpoints go")->required();
  CLI11_PARSE(app, argc, argv);
  model.kv_heads = model.heads;
  model.head_dim = model.width / model.heads;
  model.context = 64;
  MpiEnvironment mpi(nullptr, nullptr);
  const auto ranks = MpiCommunicator::world();
  try {
    Worker(*ranks, model, folder).serve();
  } catch (const Error& error) {
    fmt::print(stderr, "checkpoint_worker: {}\n", error.what());
    return static_cast<int>(error.code());
  }
  mpi.finalize();
}
