#include "parallel/checkpoint/snapshot.h"

#include <algorithm>

#include "core/base/divide.h"

namespace longwave {
namespace {

// Slices that follow each other in a parameter although the optimizer keeps them in different buckets.
struct OwnedRun {
  std::size_t parameter = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::vector<Tensor> masters, moments1, moments2;
};

std::vector<OwnedRun> merge(const std::vector<OwnedSlice>& slices) {
  std::vector<OwnedRun> runs;
  for (const OwnedSlice& slice : slices) {
    if (runs.empty() || runs.back().parameter != slice.parameter || runs.back().end != slice.begin) {
      runs.push_back({slice.parameter, slice.begin, slice.begin, {}, {}, {}});
    }
    OwnedRun& run = runs.back();
    run.end += slice.master.count();
    run.masters.push_back(slice.master);
    run.moments1.push_back(slice.moment1);
    run.moments2.push_back(slice.moment2);
  }
  return runs;
}

// Where every data rank holds all slices: one rank's part of them, of equal size on each.
std::vector<OwnedSlice> share_of(const std::vector<OwnedSlice>& slices, std::int64_t rank, std::int64_t ranks) {
  std::int64_t total = 0;
  for (const OwnedSlice& slice : slices) total += slice.master.count();
  const std::int64_t first = total * rank / ranks, last = total * (rank + 1) / ranks;
  std::vector<OwnedSlice> share;
  std::int64_t at = 0;
  for (const OwnedSlice& slice : slices) {
    const std::int64_t begin = std::max<std::int64_t>(first - at, 0);
    const std::int64_t end = std::min(last - at, slice.master.count());
    at += slice.master.count();
    if (begin >= end) continue;
    share.push_back({slice.parameter, slice.begin + begin, slice.master.rows(begin, end), slice.moment1.rows(begin, end),
                     slice.moment2.rows(begin, end)});
  }
  return share;
}

}  // namespace

Snapshot::Snapshot(const ParameterStore& store, Backend& backend, const DataParallel& optimizer, const Mesh& mesh)
    : backend_(backend) {
  const std::vector<Parameter>& parameters = store.parameters();
  std::vector<std::size_t> moments(parameters.size());  // index of the first moment; the second follows
  for (const Parameter& parameter : parameters) {
    const DType dtype = parameter.dtype == DType::f64 ? DType::f64 : DType::f32;
    tensors_.push_back({parameter.name, dtype, extents(parameter.global_shape), {}});
  }
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    moments[index] = tensors_.size();
    if (parameters[index].frozen) continue;
    for (const int moment : {1, 2}) {
      tensors_.push_back({moment_name(moment, parameters[index].name), DType::f32, tensors_[index].shape, {}});
    }
  }

  const auto first_replica = [&](const Parameter& parameter) { return mesh.tensor_rank() % parameter.replicas == 0; };
  std::vector<OwnedSlice> slices;
  for (const OwnedSlice& slice : optimizer.owned_slices()) {
    if (first_replica(parameters[slice.parameter])) slices.push_back(slice);
  }
  if (!optimizer.shards_optimizer()) slices = share_of(slices, mesh.data_rank(), mesh.shape().data);
  for (const OwnedRun& run : merge(slices)) {
    const Parameter& parameter = parameters[run.parameter];
    add_run(run.parameter, parameter, run.begin, run.masters);
    add_run(moments[run.parameter], parameter, run.begin, run.moments1);
    add_run(moments[run.parameter] + 1, parameter, run.begin, run.moments2);
  }
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    if (!parameters[index].frozen || mesh.data_rank() != 0 || !first_replica(parameters[index])) continue;
    add_run(index, parameters[index], 0, {store.value(index)});
  }
  memory_ = HostMemory(backend, bytes_);  // zeroed, so its pages are there before the first step that saves
}

void Snapshot::add_run(std::size_t tensor, const Parameter& parameter, std::int64_t begin, const std::vector<Tensor>& parts) {
  constexpr std::size_t alignment = 64;
  bytes_ = round_up(bytes_, alignment);
  const std::size_t base = bytes_;
  const std::size_t element = size_of(tensors_[tensor].dtype);
  std::int64_t count = 0;
  for (const Tensor& part : parts) {
    LONGWAVE_CHECK(part.dtype == tensors_[tensor].dtype, "{} is {}", tensors_[tensor].name, name_of(part.dtype));
    copies_.push_back({part, bytes_});
    bytes_ += part.bytes();
    count += part.count();
  }
  for (const RunPiece& piece : pieces_of_run(parameter, begin, count)) {
    slices_.push_back({tensor, piece.rectangle, base + static_cast<std::size_t>(piece.offset) * element,
                       static_cast<std::size_t>(piece.rectangle.count()) * element});
  }
}

void Snapshot::capture() {
  for (const Copy& copy : copies_) backend_.start_copy_to_host(memory_.as<std::byte>() + copy.offset, copy.from);
  backend_.synchronize();
}

}  // namespace longwave
