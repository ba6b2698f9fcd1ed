// Backend on an NVIDIA GPU: matrix products by cuBLASLt, the rest by the kernels of this folder. Activations are bf16;
// attention has head_dim 64 or 128. All work goes to one stream; the host waits in copy_to_host and synchronize only, and in
// copy_from_host where the memory is not of allocate_host. A record is a CUDA graph.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <map>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/cuda/attention_choice.h"
#include "core/backend/cuda/matrix_products.h"
#include "core/backend/cuda/memory.h"
#include "core/backend/recorder.h"

namespace longwave {

class CudaBackend final : public Backend, public Recorder {
 public:
  // FoPE's tables of 24 layers with 16 KV heads of 128 reach it at a length of 10922.
  static constexpr std::size_t default_position_table_limit = std::size_t{1} << 30;

  explicit CudaBackend(int device, std::size_t position_table_limit = default_position_table_limit);
  ~CudaBackend() override;

  // What communication has to be ordered with.
  cudaStream_t stream() const { return stream_.get(); }

  // Called now and then while the host waits for the device, which may wait for a rank that is gone: throws to end that.
  void watch(std::function<void()> watcher) { watchers_.push_back(std::move(watcher)); }

  DeviceInfo info() const override;
  void* allocate(std::size_t bytes) override;
  void release(void* pointer) override;
  void copy_from_host(Tensor to, const void* from) override;
  void copy_to_host(void* to, Tensor from) override;
  void copy(Tensor from, Tensor to) override;
  void zero(Tensor tensor) override;
  void synchronize() override;
  void* allocate_host(std::size_t bytes) override;
  void release_host(void* pointer) override;
  void start_copy_to_host(void* to, Tensor from) override;
  void mark(std::size_t slot) override;
  double seconds_between(std::size_t from, std::size_t to) override;

  void linear_forward(Tensor x, Tensor weight, Tensor y) override;
  void linear_backward_input(Tensor dy, Tensor weight, Tensor dx) override;
  void linear_backward_weight(Tensor dy, Tensor x, Tensor dweight) override;

  void embedding_forward(Tensor ids, Tensor table, std::int64_t first, Tensor out) override;
  void embedding_backward(Tensor ids, Tensor dout, std::int64_t first, Tensor dtable) override;

  void rmsnorm_forward(Tensor x, Tensor gain, float epsilon, Tensor y, Tensor rstd) override;
  void add_rmsnorm_forward(Tensor residual, Tensor branch, Tensor gain, float epsilon, Tensor y, Tensor rstd) override;
  void rmsnorm_backward(Tensor dy, Tensor x, Tensor gain, Tensor rstd, Tensor dx, Tensor dgain) override;
  void add(Tensor x, Tensor to) override;

  void qkv_split_forward(Tensor qkv, AttentionShape shape, const PositionTable& table, const QkNorm& norm, Tensor q, Tensor k,
                         Tensor v, Tensor qk_rstd) override;
  void qkv_split_backward(Tensor dq, Tensor dk, Tensor dv, Tensor qkv, AttentionShape shape, const PositionTable& table,
                          const QkNorm& norm, Tensor qk_rstd, Tensor dqkv, Tensor dquery_gain, Tensor dkey_gain,
                          const PositionTable* dtable) override;
  void attention_forward(Tensor q, Tensor k, Tensor v, AttentionShape shape, AttentionOptions options, Tensor out,
                         Tensor lse) override;
  void attention_backward(Tensor q, Tensor k, Tensor v, Tensor out, Tensor dout, Tensor lse, AttentionShape shape,
                          AttentionOptions options, Tensor dq, Tensor dk, Tensor dv, Tensor workspace) override;
  std::int64_t attention_backward_workspace(AttentionShape shape) const override;

  void swiglu_forward(Tensor gate_up, Tensor out) override;
  void swiglu_backward(Tensor dout, Tensor gate_up, Tensor dgate_up) override;

  void logit_statistics(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary, Tensor maximum, Tensor sum_exp,
                        Tensor target_logit, Tensor argmax) override;
  void rescale_sum_exp(Tensor own_maximum, Tensor maximum, Tensor sum_exp) override;
  void token_loss(Tensor targets, Tensor maximum, Tensor sum_exp, Tensor target_logit, Tensor loss) override;
  void cross_entropy_backward(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary, Tensor maximum,
                              Tensor sum_exp, Tensor weights) override;
  void loss_totals(Tensor targets, Tensor loss, Tensor weights, Tensor totals) override;

  void position_table(Tensor frequencies, Tensor cosine_coefficients, Tensor sine_coefficients, double scale,
                      PositionTable table) override;
  std::size_t position_table_limit() const override { return position_table_limit_; }
  void position_table_backward(Tensor frequencies, const PositionTable& dtable, Tensor dcosine_coefficients,
                               Tensor dsine_coefficients) override;

  // Recorder. Streams that are tied to this one by events are recorded with it, if they are tied back.
  std::size_t record(const std::function<void()>& work) override;
  void replay() override;
  bool recorded() const override { return graph_ != nullptr; }
  // Also while `work` is recorded, which ends that; the device may still be at a replay.
  void forget_record() override;

  void adamw(Tensor master, Tensor gradient, Tensor moment1, Tensor moment2, Tensor value, AdamWStep step) override;
  void sum_of_squares(Tensor x, Tensor sum) override;

 private:
  void wait_watched();
  const float* slopes_on_device(const float* slopes, std::int64_t heads);

  DeviceInfo info_;
  cuda::ComputeCapability capability_;
  std::size_t position_table_limit_;
  CudaStream stream_;
  CudaMatrixProducts products_;
  CudaScratch scratch_{[this] { forget_record(); }};  // partial sums of one operation
  std::map<std::vector<float>, float*> slopes_;  // few: one a model
  std::vector<CudaEvent> marks_;
  CudaEvent reached_;  // what synchronize waits for
  std::vector<std::function<void()>> watchers_;
  cudaGraphExec_t graph_ = nullptr;
  bool recording_ = false;
};

}  // namespace longwave
