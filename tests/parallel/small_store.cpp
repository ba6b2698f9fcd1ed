#include "tests/parallel/small_store.h"

#include <algorithm>
#include <functional>

#include "core/base/random.h"

namespace longwave {

SmallStore::SmallStore(Backend& backend, DType compute, int tensor, int tensor_rank, int kv_replicas)
    : backend_(backend), compute_(compute), tensor_(tensor), tensor_rank_(tensor_rank) {
  add("embedding", {48, 10}, Split::rows, 1, false, true);
  add("norm", {7}, Split::none, tensor, tensor > 1, false);
  add("query", {24, 10}, Split::rows, 1, false, true);
  add("key", {12, 10}, Split::rows, kv_replicas, false, true, false);
  add("output", {10, 24}, Split::columns, 1, false, true);
  add("whole_norm", {131}, Split::none, tensor, false, false);
  Parameter frozen;
  frozen.name = "frozen";
  frozen.global_shape = frozen.shape = {5};
  frozen.frozen = true;
  frozen.replicas = tensor;
  store_.add(frozen);
  add("last", {36, 37}, Split::rows, 1, false, true);

  const auto allocate = [&](std::size_t bytes) { return memory_.emplace_back(backend_.allocate(bytes)); };
  const auto count = static_cast<std::size_t>(store_.trained_count());
  store_.attach({allocate(count * size_of(compute)), compute, {store_.trained_count()}},
                {allocate(count * sizeof(float)), DType::f32, {store_.trained_count()}}, allocate(store_.frozen_bytes()));
}

SmallStore::~SmallStore() {
  for (void* memory : memory_) backend_.release(memory);
}

void SmallStore::add(const std::string& name, Shape global, Split split, int replicas, bool partial, bool decayed, bool align) {
  Parameter parameter;
  parameter.name = name;
  parameter.global_shape = parameter.shape = global;
  parameter.split = split;
  if (split != Split::none) {
    const int axis = split == Split::rows ? 0 : 1;
    const std::int64_t part = global[axis] / (tensor_ / replicas);
    parameter.begin = tensor_rank_ / replicas * part;
    parameter.end = parameter.begin + part;
    parameter.shape.extent[static_cast<std::size_t>(axis)] = part;
  }
  parameter.replicas = replicas;
  parameter.partial_gradient = partial;
  parameter.decayed = decayed;
  parameter.initialisation = global.rank == 2 ? Initialisation::truncated_normal : Initialisation::ones;
  parameter.std = 0.5;
  parameter.dtype = compute_;
  store_.add(parameter, align);
}

void SmallStore::set_initial_values(std::uint64_t seed) {
  for (std::size_t index = 0; index < store_.parameters().size(); ++index) {
    if (store_[index].frozen) continue;
    std::vector<float> drawn = initial_values(store_[index], seed);
    const Tensor value = store_.value(index);
    if (value.dtype == DType::f32) {
      backend_.copy_from_host(value, drawn.data());
    } else {
      std::vector<bf16> rounded(drawn.size());
      std::transform(drawn.begin(), drawn.end(), rounded.begin(), [](float x) { return bf16(x); });
      backend_.copy_from_host(value, rounded.data());
    }
  }
}

float SmallStore::gradient_of(std::size_t index, std::int64_t element, int data_rank, int tensor_rank, int step) const {
  const Parameter& parameter = store_[index];
  // Shards that share values differ only where each sees a part of the gradient.
  const bool differs = parameter.replicas > 1 && (parameter.partial_gradient || parameter.split != Split::none);
  const std::int64_t row = parameter.shape.rank == 2 ? element / parameter.shape[1] : 0;
  const std::int64_t column = parameter.shape.rank == 2 ? element % parameter.shape[1] : element;
  const std::int64_t share = tensor_rank / static_cast<int>(parameter.replicas);
  const std::int64_t part = parameter.end - parameter.begin;
  const std::int64_t global = (row + (parameter.split == Split::rows ? share * part : 0)) * 1000 + column +
                              (parameter.split == Split::columns ? share * part : 0);
  const RandomKey key(static_cast<std::uint64_t>(step * 64 + data_rank), "gradient",
                      parameter.name + (differs ? std::to_string(tensor_rank % parameter.replicas) : ""));
  return static_cast<float>(key.truncated_normal(3.0, static_cast<std::uint64_t>(global)));
}

double SmallStore::total_gradient(std::size_t index, std::int64_t element, int data_ranks, int step) const {
  const Parameter& parameter = store_[index];
  const bool differs = parameter.replicas > 1 && (parameter.partial_gradient || parameter.split != Split::none);
  const int replicas = static_cast<int>(parameter.replicas);
  const int first = tensor_rank_ / replicas * replicas;
  double sum = 0;
  for (int data_rank = 0; data_rank < data_ranks; ++data_rank) {
    for (int shard = first; shard < first + (differs ? replicas : 1); ++shard) {
      sum += gradient_of(index, element, data_rank, shard, step);
    }
  }
  return sum;
}

void SmallStore::set_gradients(int data_rank, int step) {
  for (std::size_t index = 0; index < store_.parameters().size(); ++index) {
    if (store_[index].frozen) continue;
    std::vector<float> gradient(static_cast<std::size_t>(store_[index].count()));
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = gradient_of(index, static_cast<std::int64_t>(i), data_rank, tensor_rank_, step);
    }
    backend_.copy_from_host(store_.gradient(index), gradient.data());
  }
}

void SmallStore::zero_gradients() { backend_.zero(store_.gradients()); }

std::vector<float> SmallStore::values() const {
  std::vector<float> host(static_cast<std::size_t>(store_.trained_count()));
  if (compute_ == DType::f32) {
    backend_.copy_to_host(host.data(), store_.values());
    return host;
  }
  std::vector<bf16> rounded(host.size());
  backend_.copy_to_host(rounded.data(), store_.values());
  std::transform(rounded.begin(), rounded.end(), host.begin(), [](bf16 x) { return static_cast<float>(x); });
  return host;
}

std::vector<float> SmallStore::gradients() const {
  std::vector<float> host(static_cast<std::size_t>(store_.trained_count()));
  backend_.copy_to_host(host.data(), store_.gradients());
  return host;
}

}  // namespace longwave
