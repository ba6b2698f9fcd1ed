#include "parallel/data_parallel.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"

namespace longwave {
namespace {

// FNV-1a over what must agree between ranks; 62 bits, so that its negative exists too.
class LayoutHash {
 public:
  void add(std::int64_t value) {
    for (int shift = 0; shift < 64; shift += 8) add_byte(static_cast<unsigned char>(value >> shift));
  }
  void add(const std::string& text) {
    for (char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0);
  }
  std::int64_t value() const { return static_cast<std::int64_t>(hash_ >> 2); }

 private:
  void add_byte(unsigned char byte) { hash_ = (hash_ ^ byte) * 0x100000001b3ull; }
  std::uint64_t hash_ = 0xcbf29ce484222325ull;
};

// Whether shards hold the same values but each has seen a part of the gradient only: norm gains their rows of the sequence,
// KV heads their query heads. A parameter that is not cut and not marked has the whole gradient on every shard.
bool summed_over_replicas(const Parameter& parameter) {
  return !parameter.frozen && parameter.replicas > 1 && (parameter.partial_gradient || parameter.split != Split::none);
}

}  // namespace

float StepResult::gradient_scale(double clip) const {
  if (weight == 0) return 0;
  const double factor = clip > 0 && grad_norm > clip ? clip / grad_norm : 1;
  return static_cast<float>(factor / weight);
}

DataParallel::DataParallel(ParameterStore& store, Backend& backend, Mesh& mesh, const DataParallelOptions& options)
    : store_(store), backend_(backend), mesh_(mesh), options_(options) {
  LONGWAVE_CHECK(store.values() && store.gradients(), "values and gradients must be attached first");
  LONGWAVE_CHECK(options.bucket_bytes > 0 && options.buckets_in_flight > 0);
  check_layout();
  const int owners = options.shard_optimizer ? mesh.data().size() : 1;
  const int owner = options.shard_optimizer ? mesh.data().rank() : 0;
  const std::int64_t bucket_elements = options.bucket_bytes / static_cast<std::int64_t>(size_of(DType::f32));
  buckets_ = partition_flat(store.trained_count(), owners, owner, std::max<std::int64_t>(bucket_elements, 1));
  segments_ = owned_segments(store, buckets_);

  const std::int64_t owned = owned_count(buckets_);
  if (store.values().dtype != DType::f32) masters_ = take(DType::f32, owned);
  moments1_ = take(DType::f32, owned);
  moments2_ = take(DType::f32, owned);
  state_bytes_ = masters_.bytes() * (masters_ ? 1 : 0) + moments1_.bytes() + moments2_.bytes();
  square_sum_ = take(DType::f64, 1);
  sums_ = HostMemory(backend, 3 * sizeof(double));
  collect_partial_sums();
  collect_update_runs();
}

DataParallel::~DataParallel() {
  for (void* memory : memory_) backend_.release(memory);
}

Tensor DataParallel::take(DType dtype, std::int64_t count) {
  Tensor tensor(nullptr, dtype, {count});
  tensor.data = backend_.allocate(std::max<std::size_t>(tensor.bytes(), 1));
  memory_.push_back(tensor.data);
  return tensor;
}

void DataParallel::check_layout() {
  LayoutHash hash;
  hash.add(store_.trained_count());
  hash.add(static_cast<std::int64_t>(store_.values().dtype));
  for (const Parameter& parameter : store_.parameters()) {
    hash.add(parameter.name);
    hash.add(parameter.offset);
    hash.add(parameter.count());
    hash.add((parameter.frozen ? 1 : 0) + (parameter.decayed ? 2 : 0) + (parameter.partial_gradient ? 4 : 0));
    hash.add(parameter.replicas);
  }
  std::int64_t extremes[2] = {hash.value(), -hash.value()};
  mesh_.control().all_reduce(extremes, 2, Element::i64, Reduction::max);
  LONGWAVE_CHECK(extremes[0] == -extremes[1], "ranks disagree on the layout of the parameters");
}

void DataParallel::collect_partial_sums() {
  std::map<std::int64_t, std::vector<OwnedSegment>> by_replicas;
  for (const Parameter& parameter : store_.parameters()) {
    if (summed_over_replicas(parameter)) by_replicas[parameter.replicas];
  }
  for (const OwnedSegment& segment : segments_) {
    const Parameter& parameter = store_[segment.parameter];
    if (summed_over_replicas(parameter)) by_replicas[parameter.replicas].push_back(segment);
  }
  for (auto& [replicas, segments] : by_replicas) {
    std::int64_t count = 0;
    for (const OwnedSegment& segment : segments) count += segment.count;
    // Shards of one data rank own the same slices, so all of them or none have something to sum.
    partial_sums_.push_back({&mesh_.replicas(replicas), std::move(segments), take(DType::f32, count)});
  }
}

void DataParallel::collect_update_runs() {
  runs_.resize(buckets_.size());
  for (const OwnedSegment& segment : segments_) {
    std::vector<UpdateRun>& runs = runs_[segment.bucket];
    const bool decayed = store_[segment.parameter].decayed;
    if (!runs.empty() && runs.back().decayed == decayed) {
      // The gap between them, if any, is zero with zero gradient and stays so.
      runs.back().count = segment.flat + segment.count - runs.back().flat;
    } else {
      runs.push_back({segment.flat, segment.state, segment.count, decayed});
    }
  }
}

Tensor DataParallel::master(std::int64_t flat, std::int64_t state, std::int64_t count) const {
  return masters_ ? masters_.rows(state, state + count) : store_.values().rows(flat, flat + count);
}

void DataParallel::initialise(std::uint64_t seed) {
  if (!masters_) return;  // the values are fp32 already
  std::vector<float> drawn;
  std::size_t drawn_parameter = store_.parameters().size();
  for (const OwnedSegment& segment : segments_) {
    const Tensor to = master(segment.flat, segment.state, segment.count);
    const Parameter& parameter = store_[segment.parameter];
    if (parameter.initialisation == Initialisation::given) {
      backend_.copy(store_.values().rows(segment.flat, segment.flat + segment.count), to);
      continue;
    }
    if (drawn_parameter != segment.parameter) {
      drawn = initial_values(parameter, seed);
      drawn_parameter = segment.parameter;
    }
    backend_.copy_from_host(to, drawn.data() + segment.begin);
  }
}

// ---- gradients

void DataParallel::begin_step() {
  LONGWAVE_CHECK(in_flight_.empty(), "the step before was not finished");
  waiting_ = buckets_.size();
}

void DataParallel::gradients_ready(void* data_parallel, std::int64_t begin) {
  auto& self = *static_cast<DataParallel*>(data_parallel);
  while (self.waiting_ > 0 && self.buckets_[self.waiting_ - 1].begin >= begin) {
    self.start_reduction(self.buckets_[--self.waiting_]);
  }
  // A moment for messages that arrived meanwhile.
  if (!self.in_flight_.empty() && self.in_flight_.front().test()) self.in_flight_.pop_front();
}

void DataParallel::start_reduction(const Bucket& bucket) {
  Communicator& data = mesh_.data();
  if (data.size() == 1) return;
  while (in_flight_.size() >= static_cast<std::size_t>(options_.buckets_in_flight)) wait_oldest();
  auto* gradient = store_.gradients().as<float>();
  if (options_.shard_optimizer && !bucket.rest) {
    in_flight_.push_back(data.start_reduce_scatter(gradient + bucket.begin, gradient + bucket.own_begin, bucket.own_count(),
                                                   Element::f32, Reduction::sum));
  } else {
    in_flight_.push_back(data.start_all_reduce(gradient + bucket.begin, bucket.count(), Element::f32, Reduction::sum));
  }
}

void DataParallel::wait_oldest() {
  in_flight_.front().wait();
  in_flight_.pop_front();
}

StepResult DataParallel::finish_gradients(Tensor totals) {
  queue_results(totals);
  return read_results();
}

void DataParallel::queue_results(Tensor totals) {
  finish_reduction();
  backend_.start_copy_to_host(sums_.as<double>() + 1, totals);
}

StepResult DataParallel::read_results() {
  backend_.synchronize();
  const auto* const sums = sums_.as<double>() + 1;
  return measure({sums[0], sums[1]});
}

StepResult DataParallel::finish_gradients(const LossTotals& local) {
  finish_reduction();
  backend_.synchronize();
  return measure(local);
}

void DataParallel::finish_reduction() {
  gradients_ready(this, 0);
  while (!in_flight_.empty()) wait_oldest();
  sum_partial_gradients();
  if (owns_squares()) start_sum_of_squares();
}

StepResult DataParallel::measure(const LossTotals& local) {
  // Every quantity is contributed once: squares by the owner of a slice, totals by the first shard of each model.
  const bool first_shard = mesh_.tensor_rank() == 0;
  double sums[3] = {owns_squares() ? *sums_.as<double>() : 0, first_shard ? local.weighted_loss : 0, first_shard ? local.weight : 0};
  mesh_.control().all_reduce(sums, 3, Element::f64, Reduction::sum);
  StepResult result;
  result.finite = std::isfinite(sums[0]) && std::isfinite(sums[1]) && std::isfinite(sums[2]);
  result.weight = sums[2];
  if (result.weight != 0) {
    result.loss = sums[1] / result.weight;
    result.grad_norm = std::sqrt(sums[0]) / result.weight;
  }
  return result;
}

// After the reduction over the data axis, when only the owned slices are left to add.
void DataParallel::sum_partial_gradients() {
  for (const PartialSums& sums : partial_sums_) {
    const auto copy_segments = [&](bool pack) {
      std::int64_t position = 0;
      for (const OwnedSegment& segment : sums.segments) {
        const Tensor gradient = store_.gradients().rows(segment.flat, segment.flat + segment.count);
        const Tensor packed = sums.packed.rows(position, position + segment.count);
        backend_.copy(pack ? gradient : packed, pack ? packed : gradient);
        position += segment.count;
      }
    };
    if (sums.segments.empty()) continue;
    copy_segments(true);
    sums.group->all_reduce(sums.packed.data, sums.packed.count(), Element::f32, Reduction::sum);
    copy_segments(false);
  }
}

// In the order of the parameters; of values that several shards hold, the first shard's count.
void DataParallel::start_sum_of_squares() {
  backend_.zero(square_sum_);
  for (const OwnedSegment& segment : segments_) {
    if (mesh_.tensor_rank() % store_[segment.parameter].replicas != 0) continue;
    backend_.sum_of_squares(store_.gradients().rows(segment.flat, segment.flat + segment.count), square_sum_);
  }
  backend_.start_copy_to_host(sums_.as<double>(), square_sum_);
}

// ---- update

void DataParallel::apply(const AdamWStep& step) {
  // Ascending, so that the parameters the next forward pass needs first are the first to travel.
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    for (const UpdateRun& run : runs_[index]) {
      AdamWStep run_step = step;
      if (!run.decayed) run_step.weight_decay = 0;
      const Tensor gradient = store_.gradients().rows(run.flat, run.flat + run.count);
      const Tensor value = store_.values().rows(run.flat, run.flat + run.count);
      backend_.adamw(master(run.flat, run.state, run.count), gradient, moments1_.rows(run.state, run.state + run.count),
                     moments2_.rows(run.state, run.state + run.count), value, run_step);
    }
    start_value_gather(buckets_[index]);
  }
  while (!in_flight_.empty()) wait_oldest();
}

void DataParallel::start_value_gather(const Bucket& bucket) {
  Communicator& data = mesh_.data();
  if (data.size() == 1 || !options_.shard_optimizer) return;
  const Tensor values = store_.values();
  const Element element = element_of(values.dtype);
  if (bucket.rest) {
    in_flight_.push_back(
        data.start_broadcast(values.rows(bucket.begin, bucket.end).data, bucket.count(), element, data.size() - 1));
  } else {
    in_flight_.push_back(data.start_all_gather(values.rows(bucket.own_begin, bucket.own_end).data,
                                               values.rows(bucket.begin, bucket.end).data, bucket.own_count(), element));
  }
}

void DataParallel::values_from_masters() {
  for (const OwnedSegment& segment : segments_) {
    if (!masters_) break;
    backend_.copy(master(segment.flat, segment.state, segment.count),
                  store_.values().rows(segment.flat, segment.flat + segment.count));
  }
  for (const Bucket& bucket : buckets_) start_value_gather(bucket);
  while (!in_flight_.empty()) wait_oldest();
}

std::vector<OwnedSlice> DataParallel::owned_slices() const {
  std::vector<OwnedSlice> slices;
  slices.reserve(segments_.size());
  for (const OwnedSegment& segment : segments_) {
    const std::int64_t state_end = segment.state + segment.count;
    slices.push_back({segment.parameter, segment.begin, master(segment.flat, segment.state, segment.count),
                      moments1_.rows(segment.state, state_end), moments2_.rows(segment.state, state_end)});
  }
  return slices;
}

std::size_t DataParallel::plan_state_bytes(std::int64_t trained_count, DType compute, int data_ranks, bool shard_optimizer) {
  const int owners = shard_optimizer ? data_ranks : 1;
  // The last rank also owns the rest, whatever the bucket size.
  const std::int64_t owned = owned_count(partition_flat(trained_count, owners, owners - 1, trained_count));
  const std::size_t buffers = compute == DType::f32 ? 2 : 3;
  return buffers * size_of(DType::f32) * static_cast<std::size_t>(owned);
}

}  // namespace longwave
