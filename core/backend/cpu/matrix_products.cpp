#include "core/backend/cpu/matrix_products.h"

#include <fmt/format.h>
#include <omp.h>

#include <compare>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>

#include "core/backend/cpu/amx_products.h"
#include "core/backend/cpu/elementwise.h"
#include "core/backend/cpu/isa.h"
#include "core/backend/cpu/scratch.h"
#include "core/base/error.h"

namespace longwave {
namespace {

enum class Kind { forward, backward_input, backward_weight };

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::forward: return "linear_forward";
    case Kind::backward_input: return "linear_backward_input";
    case Kind::backward_weight: return "linear_backward_weight";
  }
  return "?";
}

// out[M, N] (+)= left[M, K] right[K, N]. A transposed operand is the same memory read with its strides exchanged.
struct Product {
  Kind kind;
  std::int64_t m, n, k;
  DType left, right, out;
  int threads = omp_get_max_threads();  // oneDNN builds a product for a number of threads

  auto operator<=>(const Product&) const = default;

  bool left_transposed() const { return kind == Kind::backward_weight; }
  bool right_transposed() const { return kind == Kind::forward; }
  bool accumulates() const { return kind == Kind::backward_weight; }
  std::string describe() const {
    return fmt::format("{} [{}, {}] x [{}, {}], {} x {} to {}", name_of(kind), m, k, k, n, longwave::name_of(left),
                       longwave::name_of(right), longwave::name_of(out));
  }
};

dnnl::memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, DType dtype, bool transposed) {
  const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1};
  return {{rows, columns}, type_of(dtype), strides};
}

// A product ready to run; only the pointers change from call to call.
struct Ready {
  dnnl::matmul primitive;
  dnnl::memory left, right, out, scratch;
  std::unordered_map<int, dnnl::memory> arguments;
};

Ready build(const Product& product, const dnnl::engine& engine) {
  const auto left = matrix(product.m, product.k, product.left, product.left_transposed());
  const auto right = matrix(product.k, product.n, product.right, product.right_transposed());
  const auto out = matrix(product.m, product.n, product.out, false);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (product.accumulates()) {
    dnnl::post_ops post;
    post.append_sum(1.0f);
    attributes.set_post_ops(post);
  }
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(left, right, out), attributes, engine);
  Ready ready = {
      .primitive = dnnl::matmul(description),
      .left = dnnl::memory(left, engine, nullptr),
      .right = dnnl::memory(right, engine, nullptr),
      .out = dnnl::memory(out, engine, nullptr),
      .scratch = dnnl::memory(description.scratchpad_desc(), engine, nullptr),
      .arguments = {},
  };
  ready.arguments = {{DNNL_ARG_SRC, ready.left},
                     {DNNL_ARG_WEIGHTS, ready.right},
                     {DNNL_ARG_DST, ready.out},
                     {DNNL_ARG_SCRATCHPAD, ready.scratch}};
  return ready;
}

// What a linear layer's three products have in common: R rows, N outputs, K inputs.
struct Layer {
  std::int64_t rows, outputs, inputs;
};

Layer check_layer(const Tensor& outputs, const Tensor& weight, const Tensor& inputs) {
  const Layer layer = {outputs.shape[0], weight.shape[0], weight.shape[1]};
  LONGWAVE_CHECK(outputs.shape == (Shape{layer.rows, layer.outputs}) && inputs.shape == (Shape{layer.rows, layer.inputs}),
                 "[{}, {}] = [{}, {}] x [{}, {}]^T", outputs.shape[0], outputs.shape[1], inputs.shape[0], inputs.shape[1],
                 weight.shape[0], weight.shape[1]);
  return layer;
}

void check_operands(const Tensor& left, const Tensor& right) {
  LONGWAVE_CHECK(left.dtype == right.dtype, "operands are {} and {}", name_of(left.dtype), name_of(right.dtype));
}

}  // namespace

struct MatrixProducts::Implementation {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Product, Ready> products;
  Scratch scratch;
  Scratch widened_left, widened_right, widened_out;
  AmxProducts amx;

  void run(const Product& product, const Tensor& left, const Tensor& right, const Tensor& out) {
    if (product.m == 0 || product.n == 0 || product.k == 0) return;
    if (product.left == DType::bf16 && !has_bf16()) return run_widened(product, left, right, out);
    execute(product, left, right, out);
  }

  void run_widened(Product product, const Tensor& left, const Tensor& right, const Tensor& out) {
    const auto in_fp32 = [](const Tensor& tensor, Scratch& memory) {
      return Tensor{memory.get<float>(tensor.count()), DType::f32, tensor.shape};
    };
    const Tensor left_fp32 = in_fp32(left, widened_left), right_fp32 = in_fp32(right, widened_right);
    copy_cpu(left, left_fp32);
    copy_cpu(right, right_fp32);
    product.left = product.right = product.out = DType::f32;
    if (out.dtype == DType::f32) return execute(product, left_fp32, right_fp32, out);
    const Tensor out_fp32 = in_fp32(out, widened_out);
    execute(product, left_fp32, right_fp32, out_fp32);
    copy_cpu(out_fp32, out);
  }

  void execute(const Product& product, const Tensor& left, const Tensor& right, const Tensor& out) {
    try {
      auto found = products.find(product);
      if (found == products.end()) found = products.emplace(product, build(product, engine)).first;
      Ready& ready = found->second;
      ready.left.set_data_handle(left.data, stream);
      ready.right.set_data_handle(right.data, stream);
      ready.out.set_data_handle(out.data, stream);
      ready.scratch.set_data_handle(scratch.bytes(ready.scratch.get_desc().get_size()), stream);
      ready.primitive.execute(stream, ready.arguments);
      stream.wait();
    } catch (const dnnl::error& error) {
      throw Error(ExitCode::bug, fmt::format("oneDNN: {}: {} (status {})", product.describe(), error.what(),
                                             static_cast<int>(error.status)));
    }
  }
};

MatrixProducts::MatrixProducts() try : impl_(std::make_unique<Implementation>()) {
} catch (const dnnl::error& error) {
  throw Error(ExitCode::bug, fmt::format("oneDNN: cannot make a CPU engine: {} (status {})", error.what(),
                                         static_cast<int>(error.status)));
}
MatrixProducts::~MatrixProducts() = default;

bool MatrixProducts::has_bf16() {
  const auto have = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto need = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return active_isa() >= Isa::avx512_bf16 && (have & need) == need;
}

void MatrixProducts::forward(Tensor x, Tensor weight, Tensor y) {
  const Layer layer = check_layer(y, weight, x);
  check_operands(x, weight);
  if (AmxProducts::takes(x, layer.rows)) return impl_->amx.forward(x, weight, y);
  impl_->run({Kind::forward, layer.rows, layer.outputs, layer.inputs, x.dtype, weight.dtype, y.dtype}, x, weight, y);
}

void MatrixProducts::backward_input(Tensor dy, Tensor weight, Tensor dx) {
  const Layer layer = check_layer(dy, weight, dx);
  check_operands(dy, weight);
  if (AmxProducts::takes(dy, layer.rows)) return impl_->amx.backward_input(dy, weight, dx);
  impl_->run({Kind::backward_input, layer.rows, layer.inputs, layer.outputs, dy.dtype, weight.dtype, dx.dtype}, dy, weight, dx);
}

void MatrixProducts::backward_weight(Tensor dy, Tensor x, Tensor dweight) {
  const Layer layer = check_layer(dy, dweight, x);
  check_operands(dy, x);
  LONGWAVE_CHECK(dweight.dtype == DType::f32);
  if (AmxProducts::takes(dy, layer.rows)) return impl_->amx.backward_weight(dy, x, dweight);
  impl_->run({Kind::backward_weight, layer.outputs, layer.inputs, layer.rows, dy.dtype, x.dtype, DType::f32}, dy, x, dweight);
}

}  // namespace longwave
