#include "core/backend/cpu/cpu_backend.h"

#include <cpuid.h>
#include <omp.h>

#include <array>
#include <cstring>

#include "core/backend/cpu/attention.h"
#include "core/backend/cpu/elementwise.h"
#include "core/backend/cpu/embedding.h"
#include "core/backend/cpu/isa.h"
#include "core/backend/cpu/loss.h"
#include "core/backend/cpu/memory.h"
#include "core/backend/cpu/norm.h"
#include "core/backend/cpu/optimizer.h"
#include "core/backend/cpu/position_table.h"
#include "core/backend/cpu/qkv_split.h"

namespace longwave {
namespace {

// The brand string of CPUID leaves 0x80000002 to 4, without the blanks some vendors pad it with.
std::string processor_name() {
  if (__get_cpuid_max(0x80000000u, nullptr) < 0x80000004u) return "x86-64";
  std::array<unsigned, 12> words{};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    unsigned* part = &words[std::size_t{4} * leaf];
    __get_cpuid(0x80000002u + leaf, &part[0], &part[1], &part[2], &part[3]);
  }
  std::string name(reinterpret_cast<const char*>(words.data()), sizeof words);
  name.resize(std::strlen(name.c_str()));
  const std::size_t begin = name.find_first_not_of(' ');
  return begin == std::string::npos ? "x86-64" : name.substr(begin, name.find_last_not_of(' ') - begin + 1);
}

const char* instructions_of(Isa isa) {
  switch (isa) {
    case Isa::baseline: return "SSE2";
    case Isa::avx2: return "AVX2";
    case Isa::avx512: return "AVX512";
    case Isa::avx512_bf16: return "AVX512-BF16";
    case Isa::amx_bf16: return "AMX-BF16";
  }
  return "?";
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options) { return std::make_unique<CpuBackend>(options); }

CpuBackend::CpuBackend(const BackendOptions& options) {
  if (options.threads < 0) throw config_error("threads: {} is negative; use 0 for all cores of this process", options.threads);
  // OpenMP itself honours OMP_NUM_THREADS, and else takes the cores this process may run on.
  if (options.threads > 0) omp_set_num_threads(options.threads);
  active_isa();  // refuses a bad LONGWAVE_MAX_ISA now, not inside a step
}

DeviceInfo CpuBackend::info() const {
  return {.name = processor_name(),
          .instructions = instructions_of(active_isa()),
          .has_bf16 = MatrixProducts::has_bf16()};
}

// ---- memory
void* CpuBackend::allocate(std::size_t bytes) { return allocate_block(bytes); }
void CpuBackend::release(void* pointer) { release_block(pointer); }
void CpuBackend::mark(std::size_t slot) {
  if (slot >= marks_.size()) marks_.resize(slot + 1);
  marks_[slot] = std::chrono::steady_clock::now();
}
double CpuBackend::seconds_between(std::size_t from, std::size_t to) {
  return std::chrono::duration<double>(marks_.at(to) - marks_.at(from)).count();
}
void CpuBackend::copy_from_host(Tensor to, const void* from) {
  if (to.bytes() > 0) std::memcpy(to.data, from, to.bytes());
}
void CpuBackend::copy_to_host(void* to, Tensor from) {
  if (from.bytes() > 0) std::memcpy(to, from.data, from.bytes());
}
void CpuBackend::copy(Tensor from, Tensor to) { copy_cpu(from, to); }
void CpuBackend::zero(Tensor tensor) { zero_cpu(tensor); }

// ---- matrix products
void CpuBackend::linear_forward(Tensor x, Tensor weight, Tensor y) { products_.forward(x, weight, y); }
void CpuBackend::linear_backward_input(Tensor dy, Tensor weight, Tensor dx) { products_.backward_input(dy, weight, dx); }
void CpuBackend::linear_backward_weight(Tensor dy, Tensor x, Tensor dweight) { products_.backward_weight(dy, x, dweight); }

// ---- embedding
void CpuBackend::embedding_forward(Tensor ids, Tensor table, std::int64_t first, Tensor out) {
  embedding_forward_cpu(ids, table, first, out);
}
void CpuBackend::embedding_backward(Tensor ids, Tensor dout, std::int64_t first, Tensor dtable) {
  embedding_backward_cpu(ids, dout, first, dtable);
}

// ---- norms
void CpuBackend::rmsnorm_forward(Tensor x, Tensor gain, float epsilon, Tensor y, Tensor rstd) {
  rmsnorm_forward_cpu(x, gain, epsilon, y, rstd);
}
void CpuBackend::add_rmsnorm_forward(Tensor residual, Tensor branch, Tensor gain, float epsilon, Tensor y, Tensor rstd) {
  add_rmsnorm_forward_cpu(residual, branch, gain, epsilon, y, rstd);
}
void CpuBackend::rmsnorm_backward(Tensor dy, Tensor x, Tensor gain, Tensor rstd, Tensor dx, Tensor dgain) {
  rmsnorm_backward_cpu(dy, x, gain, rstd, dx, dgain, scratch_);
}
void CpuBackend::add(Tensor x, Tensor to) { add_cpu(x, to); }

// ---- attention
void CpuBackend::qkv_split_forward(Tensor qkv, AttentionShape shape, const PositionTable& table, const QkNorm& norm, Tensor q,
                                   Tensor k, Tensor v, Tensor qk_rstd) {
  qkv_split_forward_cpu(qkv, shape, table, norm, q, k, v, qk_rstd);
}
void CpuBackend::qkv_split_backward(Tensor dq, Tensor dk, Tensor dv, Tensor qkv, AttentionShape shape, const PositionTable& table,
                                    const QkNorm& norm, Tensor qk_rstd, Tensor dqkv, Tensor dquery_gain, Tensor dkey_gain,
                                    const PositionTable* dtable) {
  qkv_split_backward_cpu(dq, dk, dv, qkv, shape, table, norm, qk_rstd, dqkv, dquery_gain, dkey_gain, dtable);
}
void CpuBackend::attention_forward(Tensor q, Tensor k, Tensor v, AttentionShape shape, AttentionOptions options, Tensor out,
                                   Tensor lse) {
  attention_forward_cpu(q, k, v, shape, options, out, lse);
}
void CpuBackend::attention_backward(Tensor q, Tensor k, Tensor v, Tensor out, Tensor dout, Tensor lse, AttentionShape shape,
                                    AttentionOptions options, Tensor dq, Tensor dk, Tensor dv, Tensor workspace) {
  attention_backward_cpu(q, k, v, out, dout, lse, shape, options, dq, dk, dv, workspace);
}
std::int64_t CpuBackend::attention_backward_workspace(AttentionShape shape) const {
  return attention_backward_workspace_cpu(shape);
}

// ---- MLP
void CpuBackend::swiglu_forward(Tensor gate_up, Tensor out) { swiglu_forward_cpu(gate_up, out); }
void CpuBackend::swiglu_backward(Tensor dout, Tensor gate_up, Tensor dgate_up) { swiglu_backward_cpu(dout, gate_up, dgate_up); }
void CpuBackend::linear_swiglu_forward(Tensor x, Tensor weight, Tensor gate_up, Tensor out) {
  if (AmxSwiGlu::takes(x, out.shape[0], out.shape[1])) return amx_swiglu_.forward(x, weight, gate_up, out);
  Backend::linear_swiglu_forward(x, weight, gate_up, out);
}
void CpuBackend::linear_swiglu_backward(Tensor dy, Tensor weight, Tensor dout, Tensor gate_up) {
  if (AmxSwiGlu::takes(dy, dout.shape[0], dout.shape[1])) return amx_swiglu_.backward(dy, weight, gate_up);
  Backend::linear_swiglu_backward(dy, weight, dout, gate_up);
}

// ---- loss
void CpuBackend::logit_statistics(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary, Tensor maximum,
                                  Tensor sum_exp, Tensor target_logit, Tensor argmax) {
  logit_statistics_cpu(logits, targets, first, vocabulary, maximum, sum_exp, target_logit, argmax);
}
void CpuBackend::rescale_sum_exp(Tensor own_maximum, Tensor maximum, Tensor sum_exp) {
  rescale_sum_exp_cpu(own_maximum, maximum, sum_exp);
}
void CpuBackend::token_loss(Tensor targets, Tensor maximum, Tensor sum_exp, Tensor target_logit, Tensor loss) {
  token_loss_cpu(targets, maximum, sum_exp, target_logit, loss);
}
void CpuBackend::cross_entropy_backward(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary,
                                        Tensor maximum, Tensor sum_exp, Tensor weights) {
  cross_entropy_backward_cpu(logits, targets, first, vocabulary, maximum, sum_exp, weights);
}
void CpuBackend::loss_totals(Tensor targets, Tensor loss, Tensor weights, Tensor totals) {
  loss_totals_cpu(targets, loss, weights, totals);
}

// ---- positions
void CpuBackend::position_table(Tensor frequencies, Tensor cosine_coefficients, Tensor sine_coefficients, double scale,
                                PositionTable table) {
  position_table_cpu(frequencies, cosine_coefficients, sine_coefficients, scale, table);
}
void CpuBackend::position_table_backward(Tensor frequencies, const PositionTable& dtable, Tensor dcosine_coefficients,
                                         Tensor dsine_coefficients) {
  position_table_backward_cpu(frequencies, dtable, dcosine_coefficients, dsine_coefficients);
}

// ---- optimizer
void CpuBackend::adamw(Tensor master, Tensor gradient, Tensor moment1, Tensor moment2, Tensor value, AdamWStep step) {
  adamw_cpu(master, gradient, moment1, moment2, value, step);
}
void CpuBackend::sum_of_squares(Tensor x, Tensor sum) { sum_of_squares_cpu(x, sum, scratch_); }

}  // namespace longwave
