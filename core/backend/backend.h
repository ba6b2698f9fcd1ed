// The list of operations a device must offer. CpuBackend and CudaBackend implement it; layers are written against it alone.
//
// Conventions
// - Tensors are row-major views of memory made by `allocate`. Activations and compute weights have the compute type (fp32
//   or bf16); statistics, losses and parameter gradients are fp32; ids are int32.
// - R is rows (tokens of a micro-batch, B*T), W model width, H query heads, G KV heads, D head_dim, T length; query head h
//   reads KV head h / (H/G). Under tensor parallelism H, G, hidden and vocabulary are this shard's share.
// - Sums run in fp32 or wider in a fixed order: the same inputs give the same bits.
// - "accumulate" adds to the output instead of replacing it.
// - Calls may return before the work is done; `synchronize` waits. Failures throw Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/tensor/tensor.h"

namespace longwave {

// How cosine and sine come about, with angles in fp64:
//   C[h, t, j] = scale * sum_i cos(t frequencies[i]) cosine_coefficients[h, i, j],  S likewise with sine.
struct PositionSeries {
  Tensor frequencies;          // fp64 [D']
  Tensor cosine_coefficients;  // fp32 [table_heads, D', columns], or null data for identity (then columns == D')
  Tensor sine_coefficients;    // same shape
  double scale = 1;
};

// What the position transform multiplies with: pair j of a head, components (j, j + D/2), at position t becomes
//   y[j] = x[j] C - x[j + D/2] S,  y[j + D/2] = x[j + D/2] C + x[j] S.
// Tables hold the first `columns` pairs; the others are constant over t. Where cosine and sine have a shape but no memory, the
// series is evaluated on the way (see position_table_limit).
struct PositionTable {
  Tensor cosine;  // fp32 [table_heads, positions, columns]; table_heads is G, or 1 when all heads share
  Tensor sine;    // same shape
  float tail_cosine = 1;
  float tail_sine = 0;
  PositionSeries series = {};

  bool active() const { return cosine.shape.rank == 3; }  // false: q and k pass unchanged (nope, alibi)
  bool in_memory() const { return static_cast<bool>(cosine); }
  std::int64_t heads() const { return cosine.shape[0]; }
  std::int64_t positions() const { return cosine.shape[1]; }
  std::int64_t columns() const { return cosine.shape[2]; }
};

struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::int64_t heads = 0;     // H
  std::int64_t kv_heads = 0;  // G
  std::int64_t head_dim = 0;  // D
};

struct AttentionOptions {
  float scale = 1;               // logits = scale * q.k - slope * (i - j)
  const float* slopes = nullptr;  // host pointer, [H] ALiBi slopes of this shard's heads, or null
};

// RMSNorm of q and k over head_dim, before the position transform; null data when the model has no qk_norm.
struct QkNorm {
  Tensor query_gain;  // [D]
  Tensor key_gain;    // [D]
  float epsilon = 1e-6f;
};

struct AdamWStep {
  float learning_rate = 0;
  float beta1 = 0;
  float beta2 = 0;
  float epsilon = 0;
  float weight_decay = 0;
  float bias_correction1 = 1;  // 1 - beta1^t
  float bias_correction2 = 1;  // 1 - beta2^t
  float gradient_scale = 1;    // 1 / (count of targets), times the clip factor
};

struct DeviceInfo {
  std::string name;           // processor or GPU, as a person would say it
  std::string instructions;   // "AVX512-BF16", "sm_90", ...
  bool has_bf16 = false;      // bf16 products in hardware; without, they are computed in fp32 from widened operands
};

class Backend {
 public:
  virtual ~Backend() = default;

  // ---- memory
  virtual DeviceInfo info() const = 0;
  virtual void* allocate(std::size_t bytes) = 0;  // zeroed, aligned to 256 bytes or better
  virtual void release(void* pointer) = 0;
  virtual void copy_from_host(Tensor to, const void* from) = 0;
  virtual void copy_to_host(void* to, Tensor from) = 0;  // waits for the copy
  virtual void copy(Tensor from, Tensor to) = 0;          // same count; casts when the types differ
  virtual void zero(Tensor) = 0;
  virtual void synchronize() = 0;
  // Host memory that the device copies from and to while the host goes on (pinned on CUDA); zeroed, aligned to 64 bytes or
  // better. HostMemory owns it.
  virtual void* allocate_host(std::size_t bytes) = 0;
  virtual void release_host(void* pointer) = 0;
  virtual void start_copy_to_host(void* to, Tensor from) = 0;  // `to` is of allocate_host, and written by the next synchronize

  // ---- times of the work itself, which the host does not see where calls return before it is done
  virtual void mark(std::size_t slot) = 0;  // notes in the slot when the work up to here is done
  virtual double seconds_between(std::size_t from, std::size_t to) = 0;  // of two slots, after synchronize

  // ---- matrix products, fp32 accumulate
  // y[R, N] = x[R, K] weight[N, K]^T
  virtual void linear_forward(Tensor x, Tensor weight, Tensor y) = 0;
  // dx[R, K] = dy[R, N] weight[N, K]
  virtual void linear_backward_input(Tensor dy, Tensor weight, Tensor dx) = 0;
  // dweight[N, K] fp32 += dy[R, N]^T x[R, K]
  virtual void linear_backward_weight(Tensor dy, Tensor x, Tensor dweight) = 0;

  // ---- embedding: ids [R], table [V', W] holds vocabulary rows first .. first + V'; other ids give zero rows
  virtual void embedding_forward(Tensor ids, Tensor table, std::int64_t first, Tensor out) = 0;
  virtual void embedding_backward(Tensor ids, Tensor dout, std::int64_t first, Tensor dtable) = 0;  // dtable fp32 +=

  // ---- norms: y = x * rstd * gain, rstd[R] = 1 / sqrt(mean(x^2) + epsilon), saved for the backward
  virtual void rmsnorm_forward(Tensor x, Tensor gain, float epsilon, Tensor y, Tensor rstd) = 0;
  // residual += branch, then y = rmsnorm(residual): one pass over memory
  virtual void add_rmsnorm_forward(Tensor residual, Tensor branch, Tensor gain, float epsilon, Tensor y, Tensor rstd) = 0;
  // dx += the norm's gradient (dx holds the residual's gradient already); dgain fp32 +=
  virtual void rmsnorm_backward(Tensor dy, Tensor x, Tensor gain, Tensor rstd, Tensor dx, Tensor dgain) = 0;
  virtual void add(Tensor x, Tensor to) = 0;  // to += x

  // ---- attention
  // qkv [R, (H + 2G) D] -> q [B, H, T, D], k and v [B, G, T, D]; norm (optional), then the position transform, in fp32.
  // qk_rstd fp32 [B, H + G, T] is written when norm is used. Position t is the row's index in its sequence.
  virtual void qkv_split_forward(Tensor qkv, AttentionShape shape, const PositionTable& table, const QkNorm& norm,
                                 Tensor q, Tensor k, Tensor v, Tensor qk_rstd) = 0;
  // The reverse: dq, dk, dv -> dqkv. With norm, needs the forward's qkv and qk_rstd and adds to dquery_gain, dkey_gain
  // (fp32 [D]). With learnable tables, dtable (same shape as table, fp32) gets += dC, dS, which needs qkv too.
  virtual void qkv_split_backward(Tensor dq, Tensor dk, Tensor dv, Tensor qkv, AttentionShape shape, const PositionTable& table,
                                  const QkNorm& norm, Tensor qk_rstd, Tensor dqkv, Tensor dquery_gain, Tensor dkey_gain,
                                  const PositionTable* dtable) = 0;
  // Causal, blocked, online softmax. out [R, H D]; lse fp32 [B, H, T] is log-sum-exp of each row's logits.
  virtual void attention_forward(Tensor q, Tensor k, Tensor v, AttentionShape shape, AttentionOptions options, Tensor out,
                                 Tensor lse) = 0;
  // workspace fp32 of attention_backward_workspace(shape) elements.
  virtual void attention_backward(Tensor q, Tensor k, Tensor v, Tensor out, Tensor dout, Tensor lse, AttentionShape shape,
                                  AttentionOptions options, Tensor dq, Tensor dk, Tensor dv, Tensor workspace) = 0;
  virtual std::int64_t attention_backward_workspace(AttentionShape shape) const = 0;

  // ---- MLP: gate_up [R, 2F], gate in the first F columns; out [R, F] = silu(gate) * up
  virtual void swiglu_forward(Tensor gate_up, Tensor out) = 0;
  // dgate_up from dout; may overwrite gate_up in place (dgate_up == gate_up)
  virtual void swiglu_backward(Tensor dout, Tensor gate_up, Tensor dgate_up) = 0;
  // Each with the product before it, for devices that need not go through memory between the two: the same bits as
  // linear_forward to gate_up, then swiglu_forward,
  virtual void linear_swiglu_forward(Tensor x, Tensor weight, Tensor gate_up, Tensor out) {
    linear_forward(x, weight, gate_up);
    swiglu_forward(gate_up, out);
  }
  // and as linear_backward_input to dout, then swiglu_backward in place of gate_up; dout may be left as it was.
  virtual void linear_swiglu_backward(Tensor dy, Tensor weight, Tensor dout, Tensor gate_up) {
    linear_backward_input(dy, weight, dout);
    swiglu_backward(dout, gate_up, gate_up);
  }

  // ---- loss, vocabulary-parallel: logits [R, V'] are columns first .. first + V' of the vocabulary; columns at or past
  // `vocabulary` are padding and never count. Targets int32 [R]; a negative target has no loss.
  // maximum, sum_exp, target_logit: fp32 [R]; sum_exp is relative to this shard's maximum; target_logit is 0 where the
  // target is on another shard. argmax (int32 [R], the global id of the maximum, the lowest on ties) may be null.
  virtual void logit_statistics(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary, Tensor maximum,
                                Tensor sum_exp, Tensor target_logit, Tensor argmax) = 0;
  // sum_exp *= exp(own_maximum - maximum): to the group's maximum, before the group's sum.
  virtual void rescale_sum_exp(Tensor own_maximum, Tensor maximum, Tensor sum_exp) = 0;
  // loss[R] = log(sum_exp) + maximum - target_logit, 0 where the target is negative.
  virtual void token_loss(Tensor targets, Tensor maximum, Tensor sum_exp, Tensor target_logit, Tensor loss) = 0;
  // In place: logits <- weight[r] * (softmax - onehot), 0 for padding and rows with a negative target. weights fp32 [R].
  virtual void cross_entropy_backward(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary,
                                      Tensor maximum, Tensor sum_exp, Tensor weights) = 0;
  // totals fp64 [2] += (sum of weight * loss, sum of weight) over rows whose target is not negative.
  virtual void loss_totals(Tensor targets, Tensor loss, Tensor weights, Tensor totals) = 0;

  // ---- positions: C[g, t, j] = sum_i cos(t w_i) Wcos[g][i, j], S with sine and Wsin; angles and sums in fp64.
  // frequencies fp64 [D']; coefficients fp32 [G, D', columns], or null data for identity (then columns == D').
  virtual void position_table(Tensor frequencies, Tensor cosine_coefficients, Tensor sine_coefficients, double scale,
                              PositionTable table) = 0;
  // dcosine_coefficients[g][i, j] += sum_t cos(t w_i) dC[g, t, j], and the sine's likewise.
  virtual void position_table_backward(Tensor frequencies, const PositionTable& dtable, Tensor dcosine_coefficients,
                                       Tensor dsine_coefficients) = 0;
  // Tables of one length that take more bytes together are not made: qkv_split gets the series, which no dtable goes with.
  virtual std::size_t position_table_limit() const = 0;

  // ---- optimizer, over flat fp32 slices of equal count
  // value (compute type) is rewritten from master; in fp32 they may be the same memory.
  virtual void adamw(Tensor master, Tensor gradient, Tensor moment1, Tensor moment2, Tensor value, AdamWStep step) = 0;
  // sum fp64 [1] += sum of squares of x (fp32), in a fixed order; not finite if any element is not.
  virtual void sum_of_squares(Tensor x, Tensor sum) = 0;
};

struct BackendOptions {
  int threads = 0;  // 0: OMP_NUM_THREADS, else the cores this process may run on
};

// Defined in core/backend/cpu.
std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options = {});

}  // namespace longwave
