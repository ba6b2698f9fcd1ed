// How long each operation of a Backend takes beside its floor: the larger of its operations over the rate of matrix products
// and its bytes over the rate of a copy, both measured here. tests/gpu.sh runs it on a GPU.
//
//   gpu_kernels [--device cuda|cpu] [--tokens N] [--only WORD] [--seconds S] [--json FILE]
//
// A batch of calls is queued and waited for once, so that a launch's latency hides behind the call before it; the median of
// five batches counts. Tensors exceed the second-level cache at the default of 16384 tokens. Exit codes: those of `longwave`;
// 69 where there is no GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/backend/cuda/cuda_device.h"
#include "core/backend/profile/profiling_backend.h"
#include "core/base/error.h"
#include "core/tensor/dtype.h"

namespace longwave {
namespace {

using Clock = std::chrono::steady_clock;
using Call = std::function<void(Backend&)>;

struct Options {
  std::string device = "cuda";
  std::int64_t tokens = 16384;
  std::string only;
  double seconds = 0.05;
  std::string json;
};

struct Model {
  const char* name;
  std::int64_t width, heads, head_dim, hidden, vocabulary, context;
};

// The presets of those names, on a vocabulary of the paper's size.
constexpr std::array<Model, 2> models = {{{"60m", 512, 8, 64, 2048, 50304, 512}, {"1.2b", 2048, 16, 128, 8192, 50304, 1024}}};

// Memory of the device, filled with numbers of about the size that activations have: what a product costs depends on its bits.
class Buffer {
 public:
  Buffer(Backend& backend, DType dtype, Shape shape, double scale = 0.1) : backend_(backend) {
    const auto count = static_cast<std::size_t>(shape.count());
    tensor_ = Tensor(backend.allocate(count * size_of(dtype)), dtype, shape);
    if (dtype == DType::bf16) fill<bf16>(count, scale);
    if (dtype == DType::f32) fill<float>(count, scale);
    if (dtype == DType::f64) fill<double>(count, scale);
  }
  // Ids below `limit`.
  Buffer(Backend& backend, std::int64_t count, std::int64_t limit) : Buffer(backend, DType::i32, {count}) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>(next() % static_cast<std::uint32_t>(limit)));
    backend_.copy_from_host(tensor_, ids.data());
  }
  ~Buffer() { backend_.release(tensor_.data); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  operator Tensor() const { return tensor_; }  // NOLINT: reads as the tensor it is

 private:
  std::uint32_t next() { return state_ = state_ * 1664525u + 1013904223u, state_ >> 8; }

  template <class T> void fill(std::size_t count, double scale) {
    std::vector<T> values(count);
    for (T& value : values) value = T(static_cast<float>(scale * (static_cast<double>(next()) / (1 << 23) - 1)));
    backend_.copy_from_host(tensor_, values.data());
  }

  Backend& backend_;
  Tensor tensor_;
  std::uint32_t state_ = 1;
};

double seconds_of(Backend& backend, const Call& call, double batch_seconds) {
  const auto batch = [&](std::int64_t calls) {
    backend.synchronize();
    const Clock::time_point begin = Clock::now();
    for (std::int64_t i = 0; i < calls; ++i) call(backend);
    backend.synchronize();
    return std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(calls);
  };
  batch(2);  // algorithms are chosen, clocks rise
  const std::int64_t calls = std::clamp<std::int64_t>(std::llround(batch_seconds / batch(3)), 1, 10000);
  std::array<double, 5> times;
  for (double& time : times) time = batch(calls);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

class Bench {
 public:
  Bench(const Options& options, std::unique_ptr<Backend> backend)
      : options_(options), backend_(*backend), profiling_(std::move(backend)) {
    measure_rates();
  }

  Backend& backend() { return backend_; }
  std::int64_t tokens() const { return options_.tokens; }
  bool wanted(const std::string& name) const { return name.find(options_.only) != name.npos; }

  // `more` goes into the row as it is.
  void measure(const std::string& name, const std::string& shape, const Call& call, nlohmann::json more = {}) {
    if (!wanted(name)) return;
    profiling_.profile().clear();
    call(profiling_);
    const Work work = profiling_.profile().total().work;
    const double seconds = seconds_of(backend_, call, options_.seconds), floor = floor_seconds(work, rates_);
    fmt::print("{:<26}{:<26}{:>11.1f}{:>11.1f}{:>8.2f}{:>10.1f}{:>10.1f}\n", name, shape, seconds * 1e6, floor * 1e6,
               floor / seconds, work.bytes / seconds * 1e-9, work.operations / seconds * 1e-12);
    std::fflush(stdout);
    nlohmann::json row = {{"kernel", name}, {"shape", shape}, {"seconds", seconds}, {"floor", floor},
                          {"bytes", work.bytes}, {"operations", work.operations}};
    if (!more.is_null()) row.update(more);
    rows_.push_back(std::move(row));
  }

  void write_json() const {
    if (options_.json.empty()) return;
    const DeviceInfo info = backend_.info();
    const nlohmann::json all = {{"device", info.name},
                                {"instructions", info.instructions},
                                {"operations_per_second", rates_.operations_per_second},
                                {"bytes_per_second", rates_.bytes_per_second},
                                {"rows", rows_}};
    std::ofstream file(options_.json);
    file << all.dump(1) << "\n";
    file.close();
    if (!file) throw io_error("{} cannot be written", options_.json);
  }

 private:
  void measure_rates() {
    const std::int64_t side = std::min<std::int64_t>(8192, options_.tokens), count = tokens() * 8192;
    {
      const Shape square = {side, side};
      const Buffer x(backend_, DType::bf16, square), weight(backend_, DType::bf16, square), y(backend_, DType::bf16, square);
      const Call product = [&](Backend& backend) { backend.linear_forward(x, weight, y); };
      rates_.operations_per_second = 2 * std::pow(static_cast<double>(side), 3) / seconds_of(backend_, product, options_.seconds);
    }
    const Buffer from(backend_, DType::f32, {count}), to(backend_, DType::f32, {count});
    const Call copy = [&](Backend& backend) { backend.copy(from, to); };
    rates_.bytes_per_second = 8 * static_cast<double>(count) / seconds_of(backend_, copy, options_.seconds);
    const DeviceInfo info = backend_.info();
    fmt::print("{}, {}: {:.1f} TFLOP/s in a bf16 product of {}, {:.1f} GB/s in a copy, read and written\n\n", info.name,
               info.instructions, rates_.operations_per_second * 1e-12, side, rates_.bytes_per_second * 1e-9);
    fmt::print("{:<26}{:<26}{:>11}{:>11}{:>8}{:>10}{:>10}\n", "kernel", "shape", "us", "floor, us", "floor", "GB/s", "TFLOP/s");
  }

  const Options& options_;
  Backend& backend_;
  ProfilingBackend profiling_;
  HardwareRates rates_;
  nlohmann::json rows_ = nlohmann::json::array();
};

std::string matrix_text(const Model& model, std::int64_t rows, std::int64_t columns) {
  return fmt::format("{} [{}, {}]", model.name, rows, columns);
}

void measure_norms(Bench& bench, const Model& model, std::int64_t rows) {
  if (!bench.wanted("rmsnorm")) return;
  Backend& backend = bench.backend();
  const std::int64_t width = model.width;
  const Shape residual = {rows, width};
  const Buffer x(backend, DType::bf16, residual), branch(backend, DType::bf16, residual), y(backend, DType::bf16, residual);
  const Buffer gain(backend, DType::bf16, {width}), rstd(backend, DType::f32, {rows}), dgain(backend, DType::f32, {width});
  const std::string shape = matrix_text(model, rows, width);
  bench.measure("add_rmsnorm_forward", shape, [&](Backend& b) { b.add_rmsnorm_forward(x, branch, gain, 1e-6f, y, rstd); });
  bench.measure("rmsnorm_backward", shape, [&](Backend& b) { b.rmsnorm_backward(branch, x, gain, rstd, y, dgain); });
}

void measure_split(Bench& bench, const Model& model, std::int64_t rows) {
  if (!bench.wanted("qkv_split")) return;
  Backend& backend = bench.backend();
  const AttentionShape s = {rows / model.context, model.context, model.heads, model.heads, model.head_dim};
  const Shape head_shape = {s.batch, s.heads, s.length, s.head_dim};
  const Buffer qkv(backend, DType::bf16, {rows, 3 * model.width}), dqkv(backend, DType::bf16, {rows, 3 * model.width});
  const Buffer q(backend, DType::bf16, head_shape), k(backend, DType::bf16, head_shape), v(backend, DType::bf16, head_shape);
  for (const bool fope : {true, false}) {
    // FoPE has a table a KV head, of the quarter of the pairs that its cap leaves; RoPE one, of all pairs.
    const Shape table_shape = {fope ? s.kv_heads : 1, s.length, fope ? s.head_dim / 4 : s.head_dim / 2};
    const Buffer cosine(backend, DType::f32, table_shape), sine(backend, DType::f32, table_shape);
    const PositionTable table = {cosine, sine, 1, fope ? 1.0f : 0.0f};
    const std::string shape = fmt::format("{} {} B{} T{}", model.name, fope ? "fope" : "rope", s.batch, s.length);
    bench.measure("qkv_split_forward", shape, [&](Backend& b) { b.qkv_split_forward(qkv, s, table, {}, q, k, v, Tensor()); });
    bench.measure("qkv_split_backward", shape, [&](Backend& b) {
      b.qkv_split_backward(q, k, v, qkv, s, table, {}, Tensor(), dqkv, Tensor(), Tensor(), nullptr);
    });
  }
}

void measure_mlp(Bench& bench, const Model& model, std::int64_t rows) {
  if (!bench.wanted("swiglu")) return;
  Backend& backend = bench.backend();
  const Buffer gate_up(backend, DType::bf16, {rows, 2 * model.hidden}), dgate_up(backend, DType::bf16, {rows, 2 * model.hidden});
  const Buffer out(backend, DType::bf16, {rows, model.hidden});
  const std::string shape = matrix_text(model, rows, model.hidden);
  bench.measure("swiglu_forward", shape, [&](Backend& b) { b.swiglu_forward(gate_up, out); });
  bench.measure("swiglu_backward", shape, [&](Backend& b) { b.swiglu_backward(out, gate_up, dgate_up); });
}

void measure_embedding(Bench& bench, const Model& model, std::int64_t rows) {
  if (!bench.wanted("embedding")) return;
  Backend& backend = bench.backend();
  const Buffer ids(backend, rows, model.vocabulary), table(backend, DType::bf16, {model.vocabulary, model.width});
  const Buffer out(backend, DType::bf16, {rows, model.width}), dtable(backend, DType::f32, {model.vocabulary, model.width});
  const std::string shape = matrix_text(model, rows, model.width);
  bench.measure("embedding_forward", shape, [&](Backend& b) { b.embedding_forward(ids, table, 0, out); });
  bench.measure("embedding_backward", shape, [&](Backend& b) { b.embedding_backward(ids, out, 0, dtable); });
}

void measure_loss(Bench& bench, const Model& model, std::int64_t rows) {
  if (!bench.wanted("logit_statistics") && !bench.wanted("cross_entropy")) return;
  Backend& backend = bench.backend();
  const Buffer logits(backend, DType::bf16, {rows, model.vocabulary}), targets(backend, rows, model.vocabulary);
  const Buffer maximum(backend, DType::f32, {rows}), sum_exp(backend, DType::f32, {rows});
  const Buffer target_logit(backend, DType::f32, {rows}), weights(backend, DType::f32, {rows});
  const std::string shape = matrix_text(model, rows, model.vocabulary);
  bench.measure("logit_statistics", shape, [&](Backend& b) {
    b.logit_statistics(logits, targets, 0, model.vocabulary, maximum, sum_exp, target_logit, Tensor());
  });
  bench.measure("cross_entropy_backward", shape, [&](Backend& b) {
    b.cross_entropy_backward(logits, targets, 0, model.vocabulary, maximum, sum_exp, weights);
  });
}

void measure_products(Bench& bench, const Model& model, std::int64_t rows) {
  if (!bench.wanted("linear")) return;
  Backend& backend = bench.backend();
  const std::int64_t inputs = model.width;
  for (const std::int64_t outputs : {3 * model.width, 2 * model.hidden}) {
    const Buffer x(backend, DType::bf16, {rows, inputs}), weight(backend, DType::bf16, {outputs, inputs});
    const Buffer y(backend, DType::bf16, {rows, outputs}), dweight(backend, DType::f32, {outputs, inputs});
    const std::string shape = fmt::format("{} {} x {} x {}", model.name, rows, outputs, inputs);
    bench.measure("linear_forward", shape, [&](Backend& b) { b.linear_forward(x, weight, y); });
    bench.measure("linear_backward_input", shape, [&](Backend& b) { b.linear_backward_input(y, weight, x); });
    bench.measure("linear_backward_weight", shape, [&](Backend& b) { b.linear_backward_weight(y, x, dweight); });
  }
}

void measure_attention(Bench& bench, std::int64_t length, std::int64_t head_dim) {
  if (!bench.wanted("attention") || length > bench.tokens()) return;
  Backend& backend = bench.backend();
  const AttentionShape s = {bench.tokens() / length, length, 2048 / head_dim, 2048 / head_dim, head_dim};
  const Shape head_shape = {s.batch, s.heads, s.length, s.head_dim}, out_shape = {s.batch * s.length, s.heads * s.head_dim};
  const Buffer q(backend, DType::bf16, head_shape, 1), k(backend, DType::bf16, head_shape, 1);
  const Buffer v(backend, DType::bf16, head_shape, 1);
  const Buffer dq(backend, DType::bf16, head_shape), dk(backend, DType::bf16, head_shape), dv(backend, DType::bf16, head_shape);
  const Buffer out(backend, DType::bf16, out_shape), dout(backend, DType::bf16, out_shape);
  const Buffer lse(backend, DType::f32, {s.batch, s.heads, s.length});
  const Buffer workspace(backend, DType::f32, {std::max<std::int64_t>(1, backend.attention_backward_workspace(s))});
  const AttentionOptions options = {.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)))};
  const std::string shape = fmt::format("B{} T{} H{} D{}", s.batch, s.length, s.heads, s.head_dim);
  const nlohmann::json sizes = {{"batch", s.batch}, {"length", s.length}, {"heads", s.heads}, {"head_dim", s.head_dim}};
  bench.measure("attention_forward", shape, [&](Backend& b) { b.attention_forward(q, k, v, s, options, out, lse); }, sizes);
  bench.measure("attention_backward", shape, [&](Backend& b) {
    b.attention_backward(q, k, v, out, dout, lse, s, options, dq, dk, dv, workspace);
  }, sizes);
}

void measure_optimizer(Bench& bench) {
  if (!bench.wanted("adamw") && !bench.wanted("sum_of_squares")) return;
  Backend& backend = bench.backend();
  const std::int64_t count = bench.tokens() * 4096;
  const Buffer master(backend, DType::f32, {count}), gradient(backend, DType::f32, {count});
  const Buffer moment1(backend, DType::f32, {count}), moment2(backend, DType::f32, {count}, 0), value(backend, DType::bf16, {count}), sum(backend, DType::f64, {1});
  const AdamWStep step = {.learning_rate = 1e-4f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .weight_decay = 0.1f};
  const std::string shape = fmt::format("[{}]", count);
  bench.measure("adamw", shape, [&](Backend& b) { b.adamw(master, gradient, moment1, moment2, value, step); });
  bench.measure("sum_of_squares", shape, [&](Backend& b) { b.sum_of_squares(gradient, sum); });
}

void measure_table(Bench& bench) {
  if (!bench.wanted("position_table")) return;
  Backend& backend = bench.backend();
  const std::int64_t heads = 16, positions = bench.tokens(), columns = 32, frequencies = 45;
  const Buffer frequency(backend, DType::f64, {frequencies}, 1);
  const Shape weights = {heads, frequencies, columns}, table = {heads, positions, columns};
  const Buffer cosines(backend, DType::f32, weights), sines(backend, DType::f32, weights);
  const Buffer cosine(backend, DType::f32, table), sine(backend, DType::f32, table);
  bench.measure("position_table", fmt::format("[{}, {}, {}] of {}", heads, positions, columns, frequencies),
                [&](Backend& b) { b.position_table(frequency, cosines, sines, 1, {cosine, sine, 1, 0}); });
}

void measure_all(Bench& bench) {
  for (const Model& model : models) {
    // Narrow models get more rows, or the second-level cache would hold them.
    const std::int64_t rows = bench.tokens() * (2048 / model.width) / model.context * model.context;
    if (rows == 0) continue;
    measure_norms(bench, model, rows);
    measure_split(bench, model, rows);
    measure_mlp(bench, model, rows);
    measure_embedding(bench, model, rows);
    measure_loss(bench, model, std::max<std::int64_t>(1, bench.tokens() / 4));
    measure_products(bench, model, rows);
  }
  for (const std::int64_t head_dim : {64, 128}) {
    for (const std::int64_t length : {512, 1024, 4096, 16384}) measure_attention(bench, length, head_dim);
  }
  measure_optimizer(bench);
  measure_table(bench);
}

std::unique_ptr<Backend> make_backend(const std::string& device) {
  if (device == "cpu") return make_cpu_backend();
  const CudaDevices devices = find_cuda_devices(64);
  if (!devices.obstacle.empty()) throw Error(ExitCode::lost, fmt::format("no GPU to measure: {}", devices.obstacle));
  return make_cuda_backend(0);
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) {
  using namespace longwave;
  Options options;
  CLI::App app("Measures every operation beside its floor; see tests/gpu.sh");
  app.add_option("--device", options.device)->check(CLI::IsMember({"cuda", "cpu"}))->capture_default_str();
  app.add_option("--tokens", options.tokens, "of a micro-batch of the 1.2B model")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--only", options.only, "operations with this in their names");
  app.add_option("--seconds", options.seconds, "of a batch of calls")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--json", options.json, "write the rows there");
  CLI11_PARSE(app, argc, argv);
  try {
    Bench bench(options, make_backend(options.device));
    measure_all(bench);
    bench.write_json();
  } catch (const Error& error) {
    fmt::print(stderr, "gpu_kernels: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
