#include "core/backend/cuda/cuda_backend.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>

#include "core/backend/cuda/check.h"
#include "core/backend/cuda/kernels.h"
#include "core/base/error.h"

namespace longwave {
namespace {

using cuda::Bf16;

// The memory of an activation.
Bf16* activation(const Tensor& tensor) {
  LONGWAVE_CHECK(tensor.data == nullptr || tensor.dtype == DType::bf16, "activation is {}", name_of(tensor.dtype));
  return static_cast<Bf16*>(tensor.data);
}

float* numbers(const Tensor& tensor) { return tensor.as<float>(); }
const std::int32_t* ids_of(const Tensor& tensor) { return tensor.as<std::int32_t>(); }

int set_device(int device) {
  LONGWAVE_CUDA(cudaSetDevice, device);
  return device;
}

struct Rows {
  std::int64_t rows, width;
};

Rows check_norm(const Tensor& x, const Tensor& y, const Tensor& gain, const Tensor& rstd) {
  const std::int64_t width = gain.count();
  LONGWAVE_CHECK(x.count() == y.count() && width > 0 && x.count() % width == 0 && rstd.count() >= x.count() / width);
  // Beyond this a block would not hold a row in its registers: rmsnorm_backward.
  LONGWAVE_CHECK(width <= (width % 8 == 0 ? 16384 : 2048), "norm of width {}", width);
  return {x.count() / width, width};
}

void check_heads(AttentionShape shape) {
  LONGWAVE_CHECK(shape.head_dim == 64 || shape.head_dim == 128, "head_dim is {}, wants 64 or 128 on CUDA", shape.head_dim);
  LONGWAVE_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, "{} heads on {} KV heads", shape.heads, shape.kv_heads);
  LONGWAVE_CHECK(shape.length < (std::int64_t{1} << 30) && shape.heads < 65536 && shape.batch < 65536);
}

void check_split(const Tensor& q, const Tensor& k, const Tensor& v, AttentionShape shape) {
  check_heads(shape);
  const std::int64_t head_elements = shape.batch * shape.length * shape.head_dim;
  LONGWAVE_CHECK(q.count() == head_elements * shape.heads && k.count() == head_elements * shape.kv_heads && v.count() == k.count());
}

cuda::SeriesOperands series_operands(const PositionTable& table) {
  const PositionSeries& series = table.series;
  const std::int64_t count = series.frequencies.count(), weights = table.heads() * count * table.columns();
  LONGWAVE_CHECK(series.frequencies && !series.cosine_coefficients == !series.sine_coefficients);
  LONGWAVE_CHECK(series.cosine_coefficients ? series.cosine_coefficients.count() == weights &&
                                                  series.sine_coefficients.count() == weights
                                            : table.columns() == count,
                 "{} frequencies do not fit a series of {} heads and {} columns", count, table.heads(), table.columns());
  return {series.frequencies.as<double>(), numbers(series.cosine_coefficients), numbers(series.sine_coefficients), count,
          static_cast<float>(series.scale)};
}

cuda::QkvOperands qkv_operands(const Tensor& q, const Tensor& k, const Tensor& v, AttentionShape shape, const PositionTable& table,
                               const QkNorm& norm, const Tensor& qk_rstd) {
  check_split(q, k, v, shape);
  cuda::QkvOperands operands{};
  operands.batch = shape.batch;
  operands.length = shape.length;
  operands.heads = shape.heads;
  operands.kv_heads = shape.kv_heads;
  operands.q = activation(q);
  operands.k = activation(k);
  operands.v = activation(v);
  if (table.active()) {
    LONGWAVE_CHECK(table.sine.shape == table.cosine.shape);
    LONGWAVE_CHECK(table.heads() == 1 || table.heads() == shape.kv_heads, "a table of {} heads", table.heads());
    LONGWAVE_CHECK(table.positions() >= shape.length, "a table of {} positions, length {}", table.positions(), shape.length);
    LONGWAVE_CHECK(table.columns() <= shape.head_dim / 2, "a table of {} columns", table.columns());
    operands.cosine = numbers(table.cosine);
    operands.sine = numbers(table.sine);
    if (!table.in_memory()) operands.series = series_operands(table);
    operands.table_heads = table.heads();
    operands.positions = table.positions();
    operands.columns = table.columns();
    operands.tail_cosine = table.tail_cosine;
    operands.tail_sine = table.tail_sine;
  }
  if (norm.query_gain) {
    LONGWAVE_CHECK(norm.query_gain.count() == shape.head_dim && norm.key_gain.count() == shape.head_dim);
    LONGWAVE_CHECK(qk_rstd.count() == shape.batch * (shape.heads + shape.kv_heads) * shape.length);
    operands.query_gain = activation(norm.query_gain);
    operands.key_gain = activation(norm.key_gain);
    operands.epsilon = norm.epsilon;
    operands.rstd = numbers(qk_rstd);
  }
  return operands;
}

std::int64_t qkv_count(AttentionShape shape) {
  return shape.batch * shape.length * (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
}

cuda::AttentionOperands attention_operands(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& lse,
                                           AttentionShape shape, float scale, const float* slopes) {
  check_split(q, k, v, shape);
  LONGWAVE_CHECK(out.count() == q.count() && lse.count() == shape.batch * shape.heads * shape.length);
  cuda::AttentionOperands operands{};
  operands.batch = shape.batch;
  operands.length = shape.length;
  operands.heads = shape.heads;
  operands.kv_heads = shape.kv_heads;
  operands.q = activation(q);
  operands.k = activation(k);
  operands.v = activation(v);
  operands.out = activation(out);
  operands.lse = numbers(lse);
  operands.scale = scale;
  operands.slopes = slopes;
  return operands;
}

// Nothing is done yet when this fails, and all can be done without a graph.
void check_graph(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  throw config_error("no CUDA graph: {}: {} ({})", call, cudaGetErrorString(result), cudaGetErrorName(result));
}

// How many of this shard's columns are in the vocabulary; the others are padding.
std::int64_t valid_columns(std::int64_t columns, std::int64_t first, std::int64_t vocabulary) {
  return std::clamp<std::int64_t>(vocabulary - first, 0, columns);
}

}  // namespace

CudaBackend::CudaBackend(int device, std::size_t position_table_limit) : position_table_limit_(position_table_limit) {
  set_device(device);
  cudaDeviceProp properties;
  LONGWAVE_CUDA(cudaGetDeviceProperties, &properties, device);
  if (properties.major < 8) {
    throw config_error("{} is sm_{}{}: bf16 tensor cores begin with sm_80; use run.device=cpu", properties.name, properties.major,
                       properties.minor);
  }
  capability_ = {properties.major, properties.minor};
  info_ = {.name = properties.name,
           .instructions = fmt::format("sm_{}{}", properties.major, properties.minor),
           .has_bf16 = true};
}

CudaBackend::~CudaBackend() {
  cudaStreamSynchronize(stream());
  forget_record();
  for (const auto& [values, pointer] : slopes_) cudaFree(pointer);
}

DeviceInfo CudaBackend::info() const { return info_; }

// ---- memory
void* CudaBackend::allocate(std::size_t bytes) {
  void* pointer = allocate_cuda(bytes);
  LONGWAVE_CUDA(cudaMemsetAsync, pointer, 0, bytes, stream());
  return pointer;
}
// Called by destructors, also after the device was lost; then there is nothing left to release.
void CudaBackend::release(void* pointer) { (void)cudaFree(pointer); }
void CudaBackend::copy_from_host(Tensor to, const void* from) {
  LONGWAVE_CUDA(cudaMemcpyAsync, to.data, from, to.bytes(), cudaMemcpyHostToDevice, stream());
}
void CudaBackend::copy_to_host(void* to, Tensor from) {
  // The driver copies to pageable memory before it returns, and would wait there unwatched.
  synchronize();
  start_copy_to_host(to, from);
  synchronize();
}
void CudaBackend::start_copy_to_host(void* to, Tensor from) {
  LONGWAVE_CUDA(cudaMemcpyAsync, to, from.data, from.bytes(), cudaMemcpyDeviceToHost, stream());
}
void* CudaBackend::allocate_host(std::size_t bytes) {
  void* pointer = nullptr;
  const cudaError_t result = cudaMallocHost(&pointer, bytes > 0 ? bytes : 1);
  if (result == cudaErrorMemoryAllocation) {
    throw config_error("no pinned host memory: {} bytes ({:.1f} GiB) were refused; ask for more memory a rank, or see ulimit -l",
                       bytes, static_cast<double>(bytes) / (1 << 30));
  }
  check_cuda(result, "cudaMallocHost", __FILE__, __LINE__);
  std::memset(pointer, 0, bytes);
  return pointer;
}
void CudaBackend::release_host(void* pointer) { (void)cudaFreeHost(pointer); }
void CudaBackend::copy(Tensor from, Tensor to) {
  LONGWAVE_CHECK(from.count() == to.count(), "copy of {} elements to {}", from.count(), to.count());
  if (from.dtype == to.dtype) {
    LONGWAVE_CUDA(cudaMemcpyAsync, to.data, from.data, to.bytes(), cudaMemcpyDeviceToDevice, stream());
  } else if (from.dtype == DType::f32 && to.dtype == DType::bf16) {
    cuda::cast(stream(), numbers(from), activation(to), to.count());
  } else if (from.dtype == DType::bf16 && to.dtype == DType::f32) {
    cuda::cast(stream(), activation(from), numbers(to), to.count());
  } else if (from.dtype == DType::f64 && to.dtype == DType::f32) {
    cuda::cast(stream(), from.as<double>(), numbers(to), to.count());
  } else if (from.dtype == DType::f32 && to.dtype == DType::f64) {
    cuda::cast(stream(), numbers(from), to.as<double>(), to.count());
  } else {
    LONGWAVE_CHECK(false, "no copy from {} to {}", name_of(from.dtype), name_of(to.dtype));
  }
}
void CudaBackend::zero(Tensor tensor) { LONGWAVE_CUDA(cudaMemsetAsync, tensor.data, 0, tensor.bytes(), stream()); }
void CudaBackend::synchronize() {
  if (!watchers_.empty()) wait_watched();
  LONGWAVE_CUDA(cudaStreamSynchronize, stream());
}
void CudaBackend::wait_watched() {
  constexpr int queries_a_watch = 256;
  LONGWAVE_CUDA(cudaEventRecord, reached_.get(), stream());
  for (int query = 1;; ++query) {
    const cudaError_t result = cudaEventQuery(reached_.get());
    if (result != cudaErrorNotReady) return check_cuda(result, "cudaEventQuery", __FILE__, __LINE__);
    if (query % queries_a_watch != 0) continue;
    for (const auto& watcher : watchers_) watcher();
    std::this_thread::yield();
  }
}
void CudaBackend::mark(std::size_t slot) {
  while (marks_.size() <= slot) marks_.emplace_back(cudaEventDefault);
  if (recording_) {
    // Recorded the usual way it would order the graph's operations, and have no time.
    LONGWAVE_CUDA(cudaEventRecordWithFlags, marks_[slot].get(), stream(), cudaEventRecordExternal);
  } else {
    LONGWAVE_CUDA(cudaEventRecord, marks_[slot].get(), stream());
  }
}
double CudaBackend::seconds_between(std::size_t from, std::size_t to) {
  float milliseconds = 0;
  LONGWAVE_CUDA(cudaEventElapsedTime, &milliseconds, marks_.at(from).get(), marks_.at(to).get());
  return static_cast<double>(milliseconds) / 1000;
}

// ---- a record
std::size_t CudaBackend::record(const std::function<void()>& work) {
  forget_record();
  // Other threads, such as NCCL's, may do meanwhile what this one may not.
  check_graph(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  recording_ = true;
  try {
    work();
  } catch (const std::exception& error) {
    if (!recording_) throw;  // a rank was lost, whose communicator has forgotten the record
    forget_record();
    throw config_error("no CUDA graph: {}", error.what());
  }
  recording_ = false;
  cudaGraph_t graph = nullptr;
  check_graph(cudaStreamEndCapture(stream(), &graph), "cudaStreamEndCapture");
  std::size_t operations = 0;
  const cudaError_t counted = cudaGraphGetNodes(graph, nullptr, &operations);
  const cudaError_t made = cudaGraphInstantiate(&graph_, graph, 0);
  LONGWAVE_CUDA(cudaGraphDestroy, graph);
  check_graph(counted, "cudaGraphGetNodes");
  check_graph(made, "cudaGraphInstantiate");
  return operations;
}
void CudaBackend::replay() { LONGWAVE_CUDA(cudaGraphLaunch, graph_, stream()); }
void CudaBackend::forget_record() {
  if (std::exchange(recording_, false)) {
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream(), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  if (graph_ != nullptr) cudaGraphExecDestroy(std::exchange(graph_, nullptr));
}

// ---- matrix products
void CudaBackend::linear_forward(Tensor x, Tensor weight, Tensor y) { products_.forward(stream(), x, weight, y); }
void CudaBackend::linear_backward_input(Tensor dy, Tensor weight, Tensor dx) { products_.backward_input(stream(), dy, weight, dx); }
void CudaBackend::linear_backward_weight(Tensor dy, Tensor x, Tensor dweight) {
  products_.backward_weight(stream(), dy, x, dweight);
}

// ---- embedding
void CudaBackend::embedding_forward(Tensor ids, Tensor table, std::int64_t first, Tensor out) {
  LONGWAVE_CHECK(out.count() == ids.count() * table.shape[1]);
  cuda::embedding_forward(stream(), ids_of(ids), activation(table), first, activation(out), ids.count(), table.shape[0],
                          table.shape[1]);
}
void CudaBackend::embedding_backward(Tensor ids, Tensor dout, std::int64_t first, Tensor dtable) {
  LONGWAVE_CHECK(dout.count() == ids.count() * dtable.shape[1]);
  cuda::embedding_backward(stream(), ids_of(ids), activation(dout), first, numbers(dtable), ids.count(), dtable.shape[0],
                           dtable.shape[1]);
}

// ---- norms
void CudaBackend::rmsnorm_forward(Tensor x, Tensor gain, float epsilon, Tensor y, Tensor rstd) {
  const auto [rows, width] = check_norm(x, y, gain, rstd);
  cuda::rmsnorm_forward(stream(), activation(x), nullptr, activation(gain), epsilon, activation(y), numbers(rstd), rows, width);
}
void CudaBackend::add_rmsnorm_forward(Tensor residual, Tensor branch, Tensor gain, float epsilon, Tensor y, Tensor rstd) {
  const auto [rows, width] = check_norm(residual, y, gain, rstd);
  LONGWAVE_CHECK(branch.count() == residual.count());
  cuda::rmsnorm_forward(stream(), activation(residual), activation(branch), activation(gain), epsilon, activation(y),
                        numbers(rstd), rows, width);
}
void CudaBackend::rmsnorm_backward(Tensor dy, Tensor x, Tensor gain, Tensor rstd, Tensor dx, Tensor dgain) {
  const auto [rows, width] = check_norm(x, dx, gain, rstd);
  LONGWAVE_CHECK(dy.count() == x.count() && dgain.count() == width);
  auto* partial = scratch_.get<float>(static_cast<std::size_t>(cuda::norm_blocks * width));
  cuda::rmsnorm_backward(stream(), activation(dy), activation(x), activation(gain), numbers(rstd), activation(dx), numbers(dgain),
                         partial, rows, width);
}
void CudaBackend::add(Tensor x, Tensor to) {
  LONGWAVE_CHECK(x.count() == to.count());
  cuda::add(stream(), activation(x), activation(to), to.count());
}

// ---- attention
void CudaBackend::qkv_split_forward(Tensor qkv, AttentionShape shape, const PositionTable& table, const QkNorm& norm, Tensor q,
                                    Tensor k, Tensor v, Tensor qk_rstd) {
  cuda::QkvOperands operands = qkv_operands(q, k, v, shape, table, norm, qk_rstd);
  LONGWAVE_CHECK(qkv.count() == qkv_count(shape));
  operands.qkv = activation(qkv);
  cuda::qkv_split_forward(stream(), operands, shape.head_dim);
}
void CudaBackend::qkv_split_backward(Tensor dq, Tensor dk, Tensor dv, Tensor qkv, AttentionShape shape, const PositionTable& table,
                                     const QkNorm& norm, Tensor qk_rstd, Tensor dqkv, Tensor dquery_gain, Tensor dkey_gain,
                                     const PositionTable* dtable) {
  cuda::QkvOperands operands = qkv_operands(dq, dk, dv, shape, table, norm, qk_rstd);
  LONGWAVE_CHECK(dqkv.count() == qkv_count(shape));
  operands.dqkv = activation(dqkv);
  const bool norms = operands.query_gain != nullptr;
  if (norms || dtable != nullptr) {
    LONGWAVE_CHECK(qkv.count() == qkv_count(shape));
    operands.qkv = activation(qkv);
  }
  if (norms) LONGWAVE_CHECK(dquery_gain.count() == shape.head_dim && dkey_gain.count() == shape.head_dim);
  float* dcosine = nullptr;
  float* dsine = nullptr;
  if (dtable != nullptr) {
    LONGWAVE_CHECK(table.in_memory() && dtable->cosine.shape == table.cosine.shape && dtable->sine.shape == table.sine.shape);
    dcosine = numbers(dtable->cosine);
    dsine = numbers(dtable->sine);
  }
  auto* partial = scratch_.get<float>(static_cast<std::size_t>(cuda::gain_blocks * shape.head_dim));
  cuda::qkv_split_backward(stream(), operands, shape.head_dim, numbers(dquery_gain), numbers(dkey_gain), partial, dcosine, dsine);
}
void CudaBackend::attention_forward(Tensor q, Tensor k, Tensor v, AttentionShape shape, AttentionOptions options, Tensor out,
                                    Tensor lse) {
  const float* slopes = slopes_on_device(options.slopes, shape.heads);
  cuda::choose_attention(shape.head_dim, capability_)
      .forward(stream(), attention_operands(q, k, v, out, lse, shape, options.scale, slopes));
}
void CudaBackend::attention_backward(Tensor q, Tensor k, Tensor v, Tensor out, Tensor dout, Tensor lse, AttentionShape shape,
                                     AttentionOptions options, Tensor dq, Tensor dk, Tensor dv, Tensor workspace) {
  const float* slopes = slopes_on_device(options.slopes, shape.heads);
  cuda::AttentionOperands operands = attention_operands(q, k, v, out, lse, shape, options.scale, slopes);
  LONGWAVE_CHECK(dout.count() == q.count() && dq.count() == q.count() && dk.count() == k.count() && dv.count() == v.count());
  LONGWAVE_CHECK(workspace.count() >= attention_backward_workspace(shape));
  operands.dout = activation(dout);
  operands.delta = numbers(workspace);
  operands.dq = activation(dq);
  operands.dk = activation(dk);
  operands.dv = activation(dv);
  cuda::choose_attention(shape.head_dim, capability_).backward(stream(), operands);
}
std::int64_t CudaBackend::attention_backward_workspace(AttentionShape shape) const {
  return shape.batch * shape.heads * shape.length;
}

const float* CudaBackend::slopes_on_device(const float* slopes, std::int64_t heads) {
  if (slopes == nullptr) return nullptr;
  const std::vector<float> values(slopes, slopes + heads);
  auto found = slopes_.find(values);
  if (found == slopes_.end()) {
    const Tensor copied(allocate(values.size() * sizeof(float)), DType::f32, {heads});
    copy_from_host(copied, values.data());
    found = slopes_.emplace(values, numbers(copied)).first;
  }
  return found->second;
}

// ---- MLP
void CudaBackend::swiglu_forward(Tensor gate_up, Tensor out) {
  const std::int64_t rows = out.shape[0], hidden = out.shape[1];
  LONGWAVE_CHECK(gate_up.shape == (Shape{rows, 2 * hidden}));
  cuda::swiglu_forward(stream(), activation(gate_up), activation(out), rows, hidden);
}
void CudaBackend::swiglu_backward(Tensor dout, Tensor gate_up, Tensor dgate_up) {
  const std::int64_t rows = dout.shape[0], hidden = dout.shape[1];
  LONGWAVE_CHECK(gate_up.shape == (Shape{rows, 2 * hidden}) && dgate_up.shape == gate_up.shape);
  cuda::swiglu_backward(stream(), activation(dout), activation(gate_up), activation(dgate_up), rows, hidden);
}

// ---- loss
void CudaBackend::logit_statistics(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary, Tensor maximum,
                                   Tensor sum_exp, Tensor target_logit, Tensor argmax) {
  const std::int64_t rows = logits.shape[0], columns = logits.shape[1];
  LONGWAVE_CHECK(targets.count() == rows && maximum.count() == rows && sum_exp.count() == rows && target_logit.count() == rows);
  cuda::logit_statistics(stream(), activation(logits), ids_of(targets), first, valid_columns(columns, first, vocabulary),
                         numbers(maximum), numbers(sum_exp), numbers(target_logit), argmax.as<std::int32_t>(), rows, columns);
}
void CudaBackend::rescale_sum_exp(Tensor own_maximum, Tensor maximum, Tensor sum_exp) {
  cuda::rescale_sum_exp(stream(), numbers(own_maximum), numbers(maximum), numbers(sum_exp), sum_exp.count());
}
void CudaBackend::token_loss(Tensor targets, Tensor maximum, Tensor sum_exp, Tensor target_logit, Tensor loss) {
  cuda::token_loss(stream(), ids_of(targets), numbers(maximum), numbers(sum_exp), numbers(target_logit), numbers(loss),
                   loss.count());
}
void CudaBackend::cross_entropy_backward(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary,
                                         Tensor maximum, Tensor sum_exp, Tensor weights) {
  const std::int64_t rows = logits.shape[0], columns = logits.shape[1];
  LONGWAVE_CHECK(targets.count() == rows && maximum.count() == rows && sum_exp.count() == rows && weights.count() == rows);
  cuda::cross_entropy_backward(stream(), activation(logits), ids_of(targets), first, valid_columns(columns, first, vocabulary),
                               numbers(maximum), numbers(sum_exp), numbers(weights), rows, columns);
}
void CudaBackend::loss_totals(Tensor targets, Tensor loss, Tensor weights, Tensor totals) {
  LONGWAVE_CHECK(totals.count() == 2 && weights.count() == loss.count() && targets.count() == loss.count());
  cuda::loss_totals(stream(), ids_of(targets), numbers(loss), numbers(weights), totals.as<double>(), loss.count());
}

// ---- positions
void CudaBackend::position_table(Tensor frequencies, Tensor cosine_coefficients, Tensor sine_coefficients, double scale,
                                 PositionTable table) {
  LONGWAVE_CHECK(table.active() && table.sine.shape == table.cosine.shape);
  const cuda::TableShape shape = {table.heads(), table.positions(), table.columns(), frequencies.count()};
  const bool identity = !cosine_coefficients;
  const std::int64_t weights = shape.heads * shape.frequencies * shape.columns;
  LONGWAVE_CHECK(identity == !sine_coefficients);
  LONGWAVE_CHECK(identity ? shape.columns == shape.frequencies
                          : cosine_coefficients.count() == weights && sine_coefficients.count() == weights,
                 "{} frequencies do not fit a table of {} heads and {} columns", shape.frequencies, shape.heads, shape.columns);
  cuda::position_table(stream(), frequencies.as<double>(), numbers(cosine_coefficients), numbers(sine_coefficients), scale,
                       numbers(table.cosine), numbers(table.sine), shape);
}
void CudaBackend::position_table_backward(Tensor frequencies, const PositionTable& dtable, Tensor dcosine_coefficients,
                                          Tensor dsine_coefficients) {
  LONGWAVE_CHECK(dtable.active() && dtable.sine.shape == dtable.cosine.shape);
  const cuda::TableShape shape = {dtable.heads(), dtable.positions(), dtable.columns(), frequencies.count()};
  LONGWAVE_CHECK(dcosine_coefficients.count() == shape.heads * shape.frequencies * shape.columns);
  LONGWAVE_CHECK(dsine_coefficients.count() == dcosine_coefficients.count());
  cuda::position_table_backward(stream(), frequencies.as<double>(), numbers(dtable.cosine), numbers(dtable.sine),
                                numbers(dcosine_coefficients), numbers(dsine_coefficients), shape);
}

// ---- optimizer
void CudaBackend::adamw(Tensor master, Tensor gradient, Tensor moment1, Tensor moment2, Tensor value, AdamWStep step) {
  const std::int64_t count = master.count();
  LONGWAVE_CHECK(gradient.count() == count && moment1.count() == count && moment2.count() == count && value.count() == count);
  const cuda::AdamWFactors factors = {
      .gradient_scale = step.gradient_scale,
      .beta1 = step.beta1,
      .beta2 = step.beta2,
      .step_size = step.learning_rate / step.bias_correction1,
      .inverse_correction2 = 1.0f / step.bias_correction2,
      .epsilon = step.epsilon,
      .decay = step.learning_rate * step.weight_decay,
  };
  if (value.dtype == DType::f32) {
    cuda::adamw(stream(), numbers(master), numbers(gradient), numbers(moment1), numbers(moment2), numbers(value), factors, count);
  } else {
    cuda::adamw(stream(), numbers(master), numbers(gradient), numbers(moment1), numbers(moment2), activation(value), factors,
                count);
  }
}
void CudaBackend::sum_of_squares(Tensor x, Tensor sum) {
  auto* partial = scratch_.get<double>(static_cast<std::size_t>(cuda::square_blocks));
  cuda::sum_of_squares(stream(), numbers(x), sum.as<double>(), partial, x.count());
}

}  // namespace longwave
