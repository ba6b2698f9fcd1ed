// The CPU as a Backend: matrix products by oneDNN, the rest by OpenMP and the SIMD kernels of simd/, chosen by active_isa().
// All calls are done when they return.
//
// Results do not depend on the number of threads, except for the matrix products: those give the same bits for the same
// number of threads.
#pragma once

#include <chrono>
#include <limits>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/cpu/amx_swiglu.h"
#include "core/backend/cpu/matrix_products.h"
#include "core/backend/cpu/scratch.h"

namespace longwave {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const BackendOptions& options);

  DeviceInfo info() const override;
  void* allocate(std::size_t bytes) override;
  void release(void* pointer) override;
  void copy_from_host(Tensor to, const void* from) override;
  void copy_to_host(void* to, Tensor from) override;
  void copy(Tensor from, Tensor to) override;
  void zero(Tensor tensor) override;
  void synchronize() override {}
  void* allocate_host(std::size_t bytes) override { return allocate(bytes); }
  void release_host(void* pointer) override { release(pointer); }
  void start_copy_to_host(void* to, Tensor from) override { copy_to_host(to, from); }
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
  void linear_swiglu_forward(Tensor x, Tensor weight, Tensor gate_up, Tensor out) override;
  void linear_swiglu_backward(Tensor dy, Tensor weight, Tensor dout, Tensor gate_up) override;

  void logit_statistics(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary, Tensor maximum,
                        Tensor sum_exp, Tensor target_logit, Tensor argmax) override;
  void rescale_sum_exp(Tensor own_maximum, Tensor maximum, Tensor sum_exp) override;
  void token_loss(Tensor targets, Tensor maximum, Tensor sum_exp, Tensor target_logit, Tensor loss) override;
  void cross_entropy_backward(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary, Tensor maximum,
                              Tensor sum_exp, Tensor weights) override;
  void loss_totals(Tensor targets, Tensor loss, Tensor weights, Tensor totals) override;

  void position_table(Tensor frequencies, Tensor cosine_coefficients, Tensor sine_coefficients, double scale,
                      PositionTable table) override;
  std::size_t position_table_limit() const override { return std::numeric_limits<std::size_t>::max(); }
  void position_table_backward(Tensor frequencies, const PositionTable& dtable, Tensor dcosine_coefficients,
                               Tensor dsine_coefficients) override;

  void adamw(Tensor master, Tensor gradient, Tensor moment1, Tensor moment2, Tensor value, AdamWStep step) override;
  void sum_of_squares(Tensor x, Tensor sum) override;

 private:
  MatrixProducts products_;
  AmxSwiGlu amx_swiglu_;
  Scratch scratch_;
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

}  // namespace longwave
