// The kernels' host side: each function queues its launches on `stream`. Pointers are device memory; shapes and meaning are
// those of core/backend/backend.h, checked by CudaBackend. Activations are bf16.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace longwave::device {
struct Bf16;
}

namespace longwave::cuda {

using device::Bf16;

// ---- elementwise.cu
void add(cudaStream_t, const Bf16* x, Bf16* to, std::int64_t count);
void swiglu_forward(cudaStream_t, const Bf16* gate_up, Bf16* out, std::int64_t rows, std::int64_t hidden);
void swiglu_backward(cudaStream_t, const Bf16* dout, const Bf16* gate_up, Bf16* dgate_up, std::int64_t rows, std::int64_t hidden);
void cast(cudaStream_t, const float* from, Bf16* to, std::int64_t count);
void cast(cudaStream_t, const Bf16* from, float* to, std::int64_t count);
void cast(cudaStream_t, const double* from, float* to, std::int64_t count);
void cast(cudaStream_t, const float* from, double* to, std::int64_t count);

// ---- norm.cu; `branch` may be null (no residual to add to)
void rmsnorm_forward(cudaStream_t, Bf16* x, const Bf16* branch, const Bf16* gain, float epsilon, Bf16* y, float* rstd,
                     std::int64_t rows, std::int64_t width);
inline constexpr std::int64_t norm_blocks = 256;
// partial: fp32 [norm_blocks, width]
void rmsnorm_backward(cudaStream_t, const Bf16* dy, const Bf16* x, const Bf16* gain, const float* rstd, Bf16* dx, float* dgain,
                      float* partial, std::int64_t rows, std::int64_t width);
// Columns of [lines, width] summed in the order of the lines and added to `to`.
void add_lines(cudaStream_t, const float* partial, std::int64_t lines, std::int64_t width, float* to);

// ---- embedding.cu
void embedding_forward(cudaStream_t, const std::int32_t* ids, const Bf16* table, std::int64_t first, Bf16* out, std::int64_t rows,
                       std::int64_t vocabulary, std::int64_t width);
void embedding_backward(cudaStream_t, const std::int32_t* ids, const Bf16* dout, std::int64_t first, float* dtable,
                        std::int64_t rows, std::int64_t vocabulary, std::int64_t width);

// ---- loss.cu; `valid` of the `columns` are in the vocabulary
void logit_statistics(cudaStream_t, const Bf16* logits, const std::int32_t* targets, std::int64_t first, std::int64_t valid,
                      float* maximum, float* sum_exp, float* target_logit, std::int32_t* argmax, std::int64_t rows,
                      std::int64_t columns);
void rescale_sum_exp(cudaStream_t, const float* own_maximum, const float* maximum, float* sum_exp, std::int64_t rows);
void token_loss(cudaStream_t, const std::int32_t* targets, const float* maximum, const float* sum_exp, const float* target_logit,
                float* loss, std::int64_t rows);
void cross_entropy_backward(cudaStream_t, Bf16* logits, const std::int32_t* targets, std::int64_t first, std::int64_t valid,
                            const float* maximum, const float* sum_exp, const float* weights, std::int64_t rows,
                            std::int64_t columns);
void loss_totals(cudaStream_t, const std::int32_t* targets, const float* loss, const float* weights, double* totals,
                 std::int64_t rows);

// ---- optimizer.cu
struct AdamWFactors {
  float gradient_scale, beta1, beta2, step_size, inverse_correction2, epsilon, decay;
};
void adamw(cudaStream_t, float* master, const float* gradient, float* moment1, float* moment2, Bf16* value,
           const AdamWFactors& factors, std::int64_t count);
void adamw(cudaStream_t, float* master, const float* gradient, float* moment1, float* moment2, float* value,
           const AdamWFactors& factors, std::int64_t count);
inline constexpr std::int64_t square_blocks = 512;
// partial: fp64 [square_blocks]
void sum_of_squares(cudaStream_t, const float* x, double* sum, double* partial, std::int64_t count);

// ---- position_table.cu; null coefficients: identity. Weights fp32 or bf16 as stored is fp32 here.
struct TableShape {
  std::int64_t heads, positions, columns, frequencies;
};
void position_table(cudaStream_t, const double* frequencies, const float* cosine_coefficients, const float* sine_coefficients,
                    double scale, float* cosine, float* sine, TableShape shape);
void position_table_backward(cudaStream_t, const double* frequencies, const float* dcosine, const float* dsine,
                             float* dcosine_coefficients, float* dsine_coefficients, TableShape shape);

// ---- qkv_split.cu
// cosine[h, t, j] = scale sum_i cos(t frequencies[i]) cosine_coefficients[h, i, j], and the sine's likewise.
struct SeriesOperands {
  const double* frequencies;  // [count]; null: there is a table
  const float* cosine_coefficients;  // [table_heads, count, columns]; null: identity
  const float* sine_coefficients;
  std::int64_t count;
  float scale;
};
struct QkvOperands {
  std::int64_t batch, length, heads, kv_heads;
  const Bf16* qkv;  // [B T, (H + 2G) D]
  Bf16* q;          // [B, H, T, D]: q, k, v in the forward, dq, dk, dv in the backward
  Bf16* k;          // [B, G, T, D]
  Bf16* v;
  Bf16* dqkv;  // backward only
  const float* cosine;  // [table_heads, positions, columns]; null: no rotation, or the series
  const float* sine;
  SeriesOperands series;
  std::int64_t table_heads, positions, columns;
  float tail_cosine, tail_sine;
  const Bf16* query_gain;  // [D], null: no norm
  const Bf16* key_gain;
  float epsilon;
  float* rstd;  // [B, H + G, T]
};
void qkv_split_forward(cudaStream_t, const QkvOperands& operands, std::int64_t head_dim);
inline constexpr std::int64_t gain_blocks = 128;
// dquery_gain, dkey_gain [D] += with norm; partial: fp32 [gain_blocks, D]. dcosine, dsine (as the table) += when not null.
void qkv_split_backward(cudaStream_t, const QkvOperands& operands, std::int64_t head_dim, float* dquery_gain, float* dkey_gain,
                        float* partial, float* dcosine, float* dsine);

// ---- qkv_series.cu: the same from operands.series instead of a table, where that would be too large
void qkv_series_forward(cudaStream_t, const QkvOperands& operands, std::int64_t head_dim);
void qkv_series_backward(cudaStream_t, const QkvOperands& operands, std::int64_t head_dim, float* dquery_gain, float* dkey_gain,
                         float* partial);

// ---- attention_forward.cu, attention_backward.cu
struct AttentionOperands {
  std::int64_t batch, length, heads, kv_heads;
  const Bf16* q;  // [B, H, T, D]
  const Bf16* k;  // [B, G, T, D]
  const Bf16* v;
  Bf16* out;   // [B, T, H, D]
  float* lse;  // [B, H, T]
  float scale;
  const float* slopes;  // device memory [H], or null
  const Bf16* dout;     // backward only, as out
  float* delta;         // [B, H, T]: sum over D of dout * out
  Bf16* dq;
  Bf16* dk;
  Bf16* dv;
};
// D, the head_dim, is 64 or 128; attention_choice.h says which kernels run.
template <int D> void attention_forward(cudaStream_t, const AttentionOperands& operands);
template <int D> void attention_backward(cudaStream_t, const AttentionOperands& operands);

}  // namespace longwave::cuda
