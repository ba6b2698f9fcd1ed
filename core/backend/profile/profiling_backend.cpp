#include "core/backend/profile/profiling_backend.h"

#include <initializer_list>

namespace longwave {
namespace {

// Null tensors (no argmax, no qk_norm) hold nothing.
double bytes_of(std::initializer_list<Tensor> tensors) {
  double sum = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor) sum += static_cast<double>(tensor.bytes());
  }
  return sum;
}

Work memory_work(std::initializer_list<Tensor> tensors) { return {0, bytes_of(tensors)}; }

double table_bytes(const PositionTable& table) { return bytes_of({table.cosine, table.sine}); }

// Pairs j <= i only, two products of 2 D operations each.
double attention_operations(const AttentionShape& shape) {
  const auto pairs = static_cast<double>(shape.length) * static_cast<double>(shape.length + 1) / 2;
  return 4 * static_cast<double>(shape.batch * shape.heads * shape.head_dim) * pairs;
}

ProfileKey product_key(const char* operation, const Tensor& outputs, const Tensor& inputs) {
  return {operation, outputs.shape[0], outputs.shape[1], inputs.shape[1]};
}

Work product_work(const Tensor& outputs, const Tensor& inputs, double bytes) {
  return {2 * static_cast<double>(outputs.count()) * static_cast<double>(inputs.shape[1]), bytes};
}

}  // namespace

template <class Call> void ProfilingBackend::timed(ProfileKey key, const Work& work, const Call& call) {
  inner_->mark(0);
  call();
  inner_->mark(1);
  inner_->synchronize();
  profile_.add(key, inner_->seconds_between(0, 1), work);
}

// ---- memory
void ProfilingBackend::copy_from_host(Tensor to, const void* from) {
  timed({"copy_from_host"}, memory_work({to, to}), [&] { inner_->copy_from_host(to, from); });
}
void ProfilingBackend::copy_to_host(void* to, Tensor from) {
  timed({"copy_to_host"}, memory_work({from, from}), [&] { inner_->copy_to_host(to, from); });
}
void ProfilingBackend::start_copy_to_host(void* to, Tensor from) {
  timed({"copy_to_host"}, memory_work({from, from}), [&] { inner_->start_copy_to_host(to, from); });
}
void ProfilingBackend::copy(Tensor from, Tensor to) {
  timed({"copy"}, memory_work({from, to}), [&] { inner_->copy(from, to); });
}
void ProfilingBackend::zero(Tensor tensor) {
  timed({"zero"}, memory_work({tensor}), [&] { inner_->zero(tensor); });
}

// ---- matrix products
void ProfilingBackend::linear_forward(Tensor x, Tensor weight, Tensor y) {
  timed(product_key("linear_forward", y, x), product_work(y, x, bytes_of({x, weight, y})),
        [&] { inner_->linear_forward(x, weight, y); });
}
void ProfilingBackend::linear_backward_input(Tensor dy, Tensor weight, Tensor dx) {
  timed(product_key("linear_backward_input", dy, dx), product_work(dy, dx, bytes_of({dy, weight, dx})),
        [&] { inner_->linear_backward_input(dy, weight, dx); });
}
void ProfilingBackend::linear_backward_weight(Tensor dy, Tensor x, Tensor dweight) {
  timed(product_key("linear_backward_weight", dy, x), product_work(dy, x, bytes_of({dy, x, dweight, dweight})),
        [&] { inner_->linear_backward_weight(dy, x, dweight); });
}

// ---- embedding: of the table only the rows of the ids
void ProfilingBackend::embedding_forward(Tensor ids, Tensor table, std::int64_t first, Tensor out) {
  timed({"embedding_forward"}, memory_work({ids, out, out}), [&] { inner_->embedding_forward(ids, table, first, out); });
}
void ProfilingBackend::embedding_backward(Tensor ids, Tensor dout, std::int64_t first, Tensor dtable) {
  const Work work = {0, bytes_of({ids, dout}) + 2 * static_cast<double>(dout.count()) * sizeof(float)};
  timed({"embedding_backward"}, work, [&] { inner_->embedding_backward(ids, dout, first, dtable); });
}

// ---- norms
void ProfilingBackend::rmsnorm_forward(Tensor x, Tensor gain, float epsilon, Tensor y, Tensor rstd) {
  timed({"rmsnorm_forward"}, memory_work({x, y, rstd}), [&] { inner_->rmsnorm_forward(x, gain, epsilon, y, rstd); });
}
void ProfilingBackend::add_rmsnorm_forward(Tensor residual, Tensor branch, Tensor gain, float epsilon, Tensor y, Tensor rstd) {
  timed({"add_rmsnorm_forward"}, memory_work({residual, residual, branch, y, rstd}),
        [&] { inner_->add_rmsnorm_forward(residual, branch, gain, epsilon, y, rstd); });
}
void ProfilingBackend::rmsnorm_backward(Tensor dy, Tensor x, Tensor gain, Tensor rstd, Tensor dx, Tensor dgain) {
  timed({"rmsnorm_backward"}, memory_work({dy, x, rstd, dx, dx}),
        [&] { inner_->rmsnorm_backward(dy, x, gain, rstd, dx, dgain); });
}
void ProfilingBackend::add(Tensor x, Tensor to) {
  timed({"add"}, memory_work({x, to, to}), [&] { inner_->add(x, to); });
}

// ---- attention
void ProfilingBackend::qkv_split_forward(Tensor qkv, AttentionShape shape, const PositionTable& table, const QkNorm& norm, Tensor q,
                                         Tensor k, Tensor v, Tensor qk_rstd) {
  timed({"qkv_split_forward"}, {0, bytes_of({qkv, q, k, v, qk_rstd}) + table_bytes(table)},
        [&] { inner_->qkv_split_forward(qkv, shape, table, norm, q, k, v, qk_rstd); });
}
void ProfilingBackend::qkv_split_backward(Tensor dq, Tensor dk, Tensor dv, Tensor qkv, AttentionShape shape,
                                          const PositionTable& table, const QkNorm& norm, Tensor qk_rstd, Tensor dqkv,
                                          Tensor dquery_gain, Tensor dkey_gain, const PositionTable* dtable) {
  double bytes = bytes_of({dq, dk, dv, dqkv}) + table_bytes(table);
  if (norm.query_gain) bytes += bytes_of({qkv, qk_rstd});
  if (dtable != nullptr) bytes += 2 * table_bytes(*dtable);
  timed({"qkv_split_backward"}, {0, bytes}, [&] {
    inner_->qkv_split_backward(dq, dk, dv, qkv, shape, table, norm, qk_rstd, dqkv, dquery_gain, dkey_gain, dtable);
  });
}
void ProfilingBackend::attention_forward(Tensor q, Tensor k, Tensor v, AttentionShape shape, AttentionOptions options, Tensor out,
                                         Tensor lse) {
  timed({"attention_forward"}, {attention_operations(shape), bytes_of({q, k, v, out, lse})},
        [&] { inner_->attention_forward(q, k, v, shape, options, out, lse); });
}
void ProfilingBackend::attention_backward(Tensor q, Tensor k, Tensor v, Tensor out, Tensor dout, Tensor lse, AttentionShape shape,
                                          AttentionOptions options, Tensor dq, Tensor dk, Tensor dv, Tensor workspace) {
  // Four products; the logits computed a second time are the implementation's choice, not work that had to be done.
  timed({"attention_backward"}, {2 * attention_operations(shape), bytes_of({q, k, v, out, dout, lse, dq, dk, dv})},
        [&] { inner_->attention_backward(q, k, v, out, dout, lse, shape, options, dq, dk, dv, workspace); });
}

// ---- MLP
void ProfilingBackend::swiglu_forward(Tensor gate_up, Tensor out) {
  timed({"swiglu_forward"}, memory_work({gate_up, out}), [&] { inner_->swiglu_forward(gate_up, out); });
}
void ProfilingBackend::swiglu_backward(Tensor dout, Tensor gate_up, Tensor dgate_up) {
  timed({"swiglu_backward"}, memory_work({dout, gate_up, dgate_up}), [&] { inner_->swiglu_backward(dout, gate_up, dgate_up); });
}
void ProfilingBackend::linear_swiglu_forward(Tensor x, Tensor weight, Tensor gate_up, Tensor out) {
  timed(product_key("linear_swiglu_forward", gate_up, x), product_work(gate_up, x, bytes_of({x, weight, gate_up, out})),
        [&] { inner_->linear_swiglu_forward(x, weight, gate_up, out); });
}
void ProfilingBackend::linear_swiglu_backward(Tensor dy, Tensor weight, Tensor dout, Tensor gate_up) {
  timed(product_key("linear_swiglu_backward", dy, dout), product_work(dy, dout, bytes_of({dy, weight, gate_up, gate_up})),
        [&] { inner_->linear_swiglu_backward(dy, weight, dout, gate_up); });
}

// ---- loss
void ProfilingBackend::logit_statistics(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary, Tensor maximum,
                                        Tensor sum_exp, Tensor target_logit, Tensor argmax) {
  timed({"logit_statistics"}, memory_work({logits, targets, maximum, sum_exp, target_logit, argmax}),
        [&] { inner_->logit_statistics(logits, targets, first, vocabulary, maximum, sum_exp, target_logit, argmax); });
}
void ProfilingBackend::rescale_sum_exp(Tensor own_maximum, Tensor maximum, Tensor sum_exp) {
  timed({"rescale_sum_exp"}, memory_work({own_maximum, maximum, sum_exp, sum_exp}),
        [&] { inner_->rescale_sum_exp(own_maximum, maximum, sum_exp); });
}
void ProfilingBackend::token_loss(Tensor targets, Tensor maximum, Tensor sum_exp, Tensor target_logit, Tensor loss) {
  timed({"token_loss"}, memory_work({targets, maximum, sum_exp, target_logit, loss}),
        [&] { inner_->token_loss(targets, maximum, sum_exp, target_logit, loss); });
}
void ProfilingBackend::cross_entropy_backward(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary,
                                              Tensor maximum, Tensor sum_exp, Tensor weights) {
  timed({"cross_entropy_backward"}, memory_work({logits, logits, targets, maximum, sum_exp, weights}),
        [&] { inner_->cross_entropy_backward(logits, targets, first, vocabulary, maximum, sum_exp, weights); });
}
void ProfilingBackend::loss_totals(Tensor targets, Tensor loss, Tensor weights, Tensor totals) {
  timed({"loss_totals"}, memory_work({targets, loss, weights}), [&] { inner_->loss_totals(targets, loss, weights, totals); });
}

// ---- positions
void ProfilingBackend::position_table(Tensor frequencies, Tensor cosine_coefficients, Tensor sine_coefficients, double scale,
                                      PositionTable table) {
  timed({"position_table"}, {0, bytes_of({cosine_coefficients, sine_coefficients}) + table_bytes(table)},
        [&] { inner_->position_table(frequencies, cosine_coefficients, sine_coefficients, scale, table); });
}
void ProfilingBackend::position_table_backward(Tensor frequencies, const PositionTable& dtable, Tensor dcosine_coefficients,
                                               Tensor dsine_coefficients) {
  timed({"position_table_backward"}, {0, bytes_of({dcosine_coefficients, dsine_coefficients}) + table_bytes(dtable)},
        [&] { inner_->position_table_backward(frequencies, dtable, dcosine_coefficients, dsine_coefficients); });
}

// ---- optimizer
void ProfilingBackend::adamw(Tensor master, Tensor gradient, Tensor moment1, Tensor moment2, Tensor value, AdamWStep step) {
  double bytes = bytes_of({master, master, gradient, moment1, moment1, moment2, moment2});
  if (value.data != master.data) bytes += bytes_of({value});
  timed({"adamw"}, {0, bytes}, [&] { inner_->adamw(master, gradient, moment1, moment2, value, step); });
}
void ProfilingBackend::sum_of_squares(Tensor x, Tensor sum) {
  timed({"sum_of_squares"}, memory_work({x}), [&] { inner_->sum_of_squares(x, sum); });
}

}  // namespace longwave
