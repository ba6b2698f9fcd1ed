// A backend that does nothing, in address space without memory: under a ProfilingBackend it counts the work of models of any
// size.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>

#include "core/backend/backend.h"

namespace longwave::testing {

class IdleBackend final : public Backend {
 public:
  ~IdleBackend() override {
    for (const auto& [memory, bytes] : blocks_) munmap(memory, bytes);
  }

  DeviceInfo info() const override { return {"nothing", "none", true}; }
  void* allocate(std::size_t bytes) override {
    const std::size_t taken = bytes > 0 ? bytes : 1;
    void* const memory = mmap(nullptr, taken, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    LONGWAVE_CHECK(memory != MAP_FAILED, "no address space of {} bytes", taken);
    blocks_[memory] = taken;
    return memory;
  }
  void release(void* memory) override {
    const auto block = blocks_.find(memory);
    munmap(memory, block->second);
    blocks_.erase(block);
  }
  void copy_from_host(Tensor, const void*) override {}
  void copy_to_host(void* to, Tensor from) override { std::memset(to, 0, from.bytes()); }
  void copy(Tensor, Tensor) override {}
  void zero(Tensor) override {}
  void synchronize() override {}
  void* allocate_host(std::size_t bytes) override { return std::calloc(bytes, 1); }
  void release_host(void* memory) override { std::free(memory); }
  void start_copy_to_host(void* to, Tensor from) override { copy_to_host(to, from); }
  void mark(std::size_t) override {}
  double seconds_between(std::size_t, std::size_t) override { return 0; }

  void linear_forward(Tensor, Tensor, Tensor) override {}
  void linear_backward_input(Tensor, Tensor, Tensor) override {}
  void linear_backward_weight(Tensor, Tensor, Tensor) override {}
  void embedding_forward(Tensor, Tensor, std::int64_t, Tensor) override {}
  void embedding_backward(Tensor, Tensor, std::int64_t, Tensor) override {}
  void rmsnorm_forward(Tensor, Tensor, float, Tensor, Tensor) override {}
  void add_rmsnorm_forward(Tensor, Tensor, Tensor, float, Tensor, Tensor) override {}
  void rmsnorm_backward(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor) override {}
  void add(Tensor, Tensor) override {}
  void qkv_split_forward(Tensor, AttentionShape, const PositionTable&, const QkNorm&, Tensor, Tensor, Tensor, Tensor) override {}
  void qkv_split_backward(Tensor, Tensor, Tensor, Tensor, AttentionShape, const PositionTable&, const QkNorm&, Tensor, Tensor,
                          Tensor, Tensor, const PositionTable*) override {}
  void attention_forward(Tensor, Tensor, Tensor, AttentionShape, AttentionOptions, Tensor, Tensor) override {}
  void attention_backward(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, AttentionShape, AttentionOptions, Tensor, Tensor,
                          Tensor, Tensor) override {}
  std::int64_t attention_backward_workspace(AttentionShape shape) const override {
    return shape.batch * shape.heads * shape.length;
  }
  void swiglu_forward(Tensor, Tensor) override {}
  void swiglu_backward(Tensor, Tensor, Tensor) override {}
  void logit_statistics(Tensor, Tensor, std::int64_t, std::int64_t, Tensor, Tensor, Tensor, Tensor) override {}
  void rescale_sum_exp(Tensor, Tensor, Tensor) override {}
  void token_loss(Tensor, Tensor, Tensor, Tensor, Tensor) override {}
  void cross_entropy_backward(Tensor, Tensor, std::int64_t, std::int64_t, Tensor, Tensor, Tensor) override {}
  void loss_totals(Tensor, Tensor, Tensor, Tensor) override {}
  void position_table(Tensor, Tensor, Tensor, double, PositionTable) override {}
  void position_table_backward(Tensor, const PositionTable&, Tensor, Tensor) override {}
  std::size_t position_table_limit() const override { return std::numeric_limits<std::size_t>::max(); }
  void adamw(Tensor, Tensor, Tensor, Tensor, Tensor, AdamWStep) override {}
  void sum_of_squares(Tensor, Tensor) override {}

 private:
  std::map<void*, std::size_t> blocks_;
};

}  // namespace longwave::testing
