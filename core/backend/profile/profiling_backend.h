// A Backend that times another one: every call is passed on, waited for, and written down with the operations and bytes that
// its shapes ask for. Results are those of the backend inside. A job without logging.profile never makes one, so it costs
// nothing there; with it, an asynchronous device loses what its calls would have overlapped.
#pragma once

#include <memory>

#include "core/backend/backend.h"
#include "core/backend/profile/profile.h"

namespace longwave {

class ProfilingBackend final : public Backend {
 public:
  explicit ProfilingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  Backend& inner() { return *inner_; }
  Profile& profile() { return profile_; }

  DeviceInfo info() const override { return inner_->info(); }
  void* allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  void release(void* pointer) override { inner_->release(pointer); }
  void copy_from_host(Tensor to, const void* from) override;
  void copy_to_host(void* to, Tensor from) override;
  void copy(Tensor from, Tensor to) override;
  void zero(Tensor tensor) override;
  void synchronize() override { inner_->synchronize(); }
  void* allocate_host(std::size_t bytes) override { return inner_->allocate_host(bytes); }
  void release_host(void* pointer) override { inner_->release_host(pointer); }
  void start_copy_to_host(void* to, Tensor from) override;
  // The first slots are this class's own.
  void mark(std::size_t slot) override { inner_->mark(slot + own_slots); }
  double seconds_between(std::size_t from, std::size_t to) override {
    return inner_->seconds_between(from + own_slots, to + own_slots);
  }

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
  std::int64_t attention_backward_workspace(AttentionShape shape) const override {
    return inner_->attention_backward_workspace(shape);
  }

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
  std::size_t position_table_limit() const override { return inner_->position_table_limit(); }
  void position_table_backward(Tensor frequencies, const PositionTable& dtable, Tensor dcosine_coefficients,
                               Tensor dsine_coefficients) override;

  void adamw(Tensor master, Tensor gradient, Tensor moment1, Tensor moment2, Tensor value, AdamWStep step) override;
  void sum_of_squares(Tensor x, Tensor sum) override;

 private:
  static constexpr std::size_t own_slots = 2;

  template <class Call> void timed(ProfileKey key, const Work& work, const Call& call);

  std::unique_ptr<Backend> inner_;
  Profile profile_;
};

}  // namespace longwave
