// Data parallelism over a mesh: reduces the gradients of a step while the backward pass goes on, measures their global
// norm, and updates the parameters with AdamW (Loshchilov & Hutter, arXiv 1711.05101).
//
// With `shard_optimizer` (ZeRO stage 1, Rajbhandari et al., arXiv 1910.02054) a rank keeps fp32 master weights and moments
// only of its slices: gradients are reduce-scattered, slices updated, values all-gathered. Without, gradients are
// all-reduced and every rank updates everything. Both give the same values.
//
// Gradients are sums of losses over tokens, reduced in fp32 in rank order. A step, the same calls on every rank:
//
//   data_parallel.begin_step();
//   transformer.zero_gradients();
//   for each micro-batch: transformer.accumulate(..., last ? DataParallel::gradients_ready : nullptr, &data_parallel);
//   StepResult result = data_parallel.finish_gradients(transformer.totals());
//   if (result.finite) data_parallel.apply(adamw with gradient_scale = result.gradient_scale(clip));
//   transformer.parameters_changed();
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/backend/host_memory.h"
#include "core/model/parameter_store.h"
#include "core/model/transformer.h"
#include "parallel/flat_partition.h"
#include "parallel/mesh.h"

namespace longwave {

struct DataParallelOptions {
  bool shard_optimizer = true;
  std::int64_t bucket_bytes = 8 << 20;  // of fp32 gradients
  int buckets_in_flight = 4;            // more are not started before the oldest has arrived: each needs its size again
};

// The same on every rank, to the bit.
struct StepResult {
  double weight = 0;     // of the targets of the whole batch; 0 when there were none
  double loss = 0;       // mean over the targets
  double grad_norm = 0;  // of the gradient of the mean loss, every parameter counted once
  bool finite = true;    // loss and every gradient

  // What turns the stored sums into the clipped gradient of the mean; `clip` 0 is off.
  float gradient_scale(double clip) const;
};

// What a checkpoint holds of one parameter on this rank: elements [begin, begin + count) of its local matrix, row-major.
struct OwnedSlice {
  std::size_t parameter = 0;
  std::int64_t begin = 0;
  Tensor master;   // fp32 [count]
  Tensor moment1;  // fp32 [count]
  Tensor moment2;  // fp32 [count]
};

class DataParallel {
 public:
  // The store has values and gradients attached. Takes the optimizer's memory. Collective: throws on every rank if the
  // shards' layouts differ.
  DataParallel(ParameterStore& store, Backend& backend, Mesh& mesh, const DataParallelOptions& options = {});
  ~DataParallel();

  // Master weights drawn again in fp32, so that they do not start from rounded values; those given, not drawn, are copied.
  void initialise(std::uint64_t seed);

  void begin_step();
  // Transformer::GradientsReady: gradients from flat offset `begin` on are complete.
  static void gradients_ready(void* data_parallel, std::int64_t begin);
  // Reduces what is left and measures it, with one wait for the device. The totals, in device memory as Transformer::totals or
  // on the host, are this rank's; shards of one model pass the same. The first form is queue_results, which waits for nothing,
  // and read_results: all from begin_step to queue_results can be recorded (Recorder).
  StepResult finish_gradients(Tensor totals);
  void queue_results(Tensor totals);
  StepResult read_results();
  StepResult finish_gradients(const LossTotals& local);
  // After a failure on the way, so that the step can begin again.
  void abandon_step() { in_flight_.clear(); }
  // Updates masters and values; weight decay applies to the parameters marked for it. Gradients stay as they are.
  void apply(const AdamWStep& step);

  // For loading and saving. The views stay valid; after writing to masters call values_from_masters (collective).
  bool shards_optimizer() const { return options_.shard_optimizer; }
  std::vector<OwnedSlice> owned_slices() const;
  void values_from_masters();

  std::size_t state_bytes() const { return state_bytes_; }
  // state_bytes of the rank that has most, for planning.
  static std::size_t plan_state_bytes(std::int64_t trained_count, DType compute, int data_ranks, bool shard_optimizer);

 private:
  // Parameters that lie on several shards of the tensor axis, each of which saw part of the gradient.
  struct PartialSums {
    Communicator* group = nullptr;
    std::vector<OwnedSegment> segments;
    Tensor packed;  // fp32
  };
  // Adjacent owned elements that weight decay treats alike.
  struct UpdateRun {
    std::int64_t flat = 0;
    std::int64_t state = 0;
    std::int64_t count = 0;
    bool decayed = false;
  };

  Tensor take(DType dtype, std::int64_t count);
  void check_layout();
  void collect_partial_sums();
  void collect_update_runs();
  Tensor master(std::int64_t flat, std::int64_t state, std::int64_t count) const;

  void start_reduction(const Bucket& bucket);
  void wait_oldest();
  void sum_partial_gradients();
  void finish_reduction();
  bool owns_squares() const { return options_.shard_optimizer || mesh_.data_rank() == 0; }
  void start_sum_of_squares();
  StepResult measure(const LossTotals& local);
  void start_value_gather(const Bucket& bucket);

  ParameterStore& store_;
  Backend& backend_;
  Mesh& mesh_;
  DataParallelOptions options_;

  std::vector<Bucket> buckets_;
  std::vector<OwnedSegment> segments_;
  std::vector<PartialSums> partial_sums_;
  std::vector<std::vector<UpdateRun>> runs_;  // by bucket
  Tensor masters_, moments1_, moments2_;      // fp32 [owned]; in fp32 compute the values themselves are the masters
  Tensor square_sum_;                         // fp64 [1]
  HostMemory sums_;                           // fp64 [3]: square_sum_, and the totals
  std::vector<void*> memory_;
  std::size_t state_bytes_ = 0;

  std::size_t waiting_ = 0;  // buckets [0, waiting_) are not yet being reduced
  std::deque<Request> in_flight_;
};

}  // namespace longwave
