// A hand-made shard of parameters of every kind, with values and gradients that any rank can compute for every other:
// what reductions, norms and updates must give is then arithmetic.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/model/parameter_store.h"

namespace longwave {

class SmallStore {
 public:
  // Shard `tensor_rank` of `tensor`; KV rows are held by `kv_replicas` adjacent shards.
  SmallStore(Backend& backend, DType compute, int tensor, int tensor_rank, int kv_replicas);
  ~SmallStore();
  SmallStore(const SmallStore&) = delete;
  SmallStore& operator=(const SmallStore&) = delete;

  ParameterStore& store() { return store_; }
  void set_initial_values(std::uint64_t seed);
  // What data rank `data_rank` found at `step`: this shard's part of it.
  void set_gradients(int data_rank, int step);
  void zero_gradients();

  std::vector<float> values() const;     // the flat range, as fp32
  std::vector<float> gradients() const;

  // The gradient of element `element` of parameter `index`'s local matrix as shard `tensor_rank` of `data_rank` sees it.
  float gradient_of(std::size_t index, std::int64_t element, int data_rank, int tensor_rank, int step) const;
  // The same summed over everything that contributes to it, in fp64.
  double total_gradient(std::size_t index, std::int64_t element, int data_ranks, int step) const;

 private:
  void add(const std::string& name, Shape global, Split split, int replicas, bool partial, bool decayed, bool align = true);

  Backend& backend_;
  DType compute_;
  int tensor_;
  int tensor_rank_;
  ParameterStore store_;
  std::vector<void*> memory_;
};

}  // namespace longwave
