#include "core/backend/cpu/elementwise.h"

#include <cstring>

#include "core/backend/cpu/elementwise_kernels.h"
#include "core/backend/cpu/parallel.h"

namespace longwave {

LONGWAVE_DEFINE_KERNELS(ElementwiseKernels, elementwise_kernels)

namespace {

template <class From, class To> void copy_plainly(Tensor from, Tensor to) {
  const From* x = from.as<From>();
  To* y = to.as<To>();
  parallel_ranges(to.count(), elements_a_range, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = static_cast<To>(x[i]);
  });
}

void copy_bytes(Tensor from, Tensor to) {
  parallel_ranges(to.count(), elements_a_range, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(element(to, begin), element(from, begin), static_cast<std::size_t>(end - begin) * size_of(to.dtype));
  });
}

}  // namespace

void copy_cpu(Tensor from, Tensor to) {
  LONGWAVE_CHECK(from.count() == to.count(), "copy of {} elements to {}", from.count(), to.count());
  if (from.dtype == to.dtype) return copy_bytes(from, to);
  if (from.dtype == DType::f32 && to.dtype == DType::bf16) {
    return parallel_ranges(to.count(), elements_a_range, [&](std::int64_t begin, std::int64_t end) {
      elementwise_kernels().to_bf16(from.as<float>() + begin, static_cast<Bf16Bits*>(element(to, begin)), end - begin);
    });
  }
  if (from.dtype == DType::bf16 && to.dtype == DType::f32) {
    return parallel_ranges(to.count(), elements_a_range, [&](std::int64_t begin, std::int64_t end) {
      elementwise_kernels().from_bf16(static_cast<const Bf16Bits*>(element(from, begin)), to.as<float>() + begin, end - begin);
    });
  }
  if (from.dtype == DType::f64 && to.dtype == DType::f32) return copy_plainly<double, float>(from, to);
  if (from.dtype == DType::f32 && to.dtype == DType::f64) return copy_plainly<float, double>(from, to);
  LONGWAVE_CHECK(false, "no copy from {} to {}", name_of(from.dtype), name_of(to.dtype));
}

void zero_cpu(Tensor tensor) {
  parallel_ranges(tensor.count(), elements_a_range, [&](std::int64_t begin, std::int64_t end) {
    std::memset(element(tensor, begin), 0, static_cast<std::size_t>(end - begin) * size_of(tensor.dtype));
  });
}

void add_cpu(Tensor x, Tensor to) {
  LONGWAVE_CHECK(x.dtype == to.dtype && x.count() == to.count());
  const auto kernel = elementwise_kernels().add[kernel_of(x.dtype)];
  parallel_ranges(x.count(), elements_a_range,
                  [&](std::int64_t begin, std::int64_t end) { kernel(element(x, begin), element(to, begin), end - begin); });
}

void swiglu_forward_cpu(Tensor gate_up, Tensor out) {
  const std::int64_t rows = out.shape[0], hidden = out.shape[1];
  LONGWAVE_CHECK(gate_up.dtype == out.dtype && gate_up.shape == (Shape{rows, 2 * hidden}));
  const auto kernel = elementwise_kernels().swiglu[kernel_of(out.dtype)];
  parallel_rows(rows, hidden, [&](std::int64_t row) {
    kernel(element(gate_up, row * 2 * hidden), element(gate_up, (row * 2 + 1) * hidden), element(out, row * hidden), hidden);
  });
}

void swiglu_backward_cpu(Tensor dout, Tensor gate_up, Tensor dgate_up) {
  const std::int64_t rows = dout.shape[0], hidden = dout.shape[1];
  LONGWAVE_CHECK(gate_up.dtype == dout.dtype && gate_up.shape == (Shape{rows, 2 * hidden}));
  LONGWAVE_CHECK(dgate_up.dtype == dout.dtype && dgate_up.shape == gate_up.shape);
  const auto kernel = elementwise_kernels().swiglu_backward[kernel_of(dout.dtype)];
  parallel_rows(rows, hidden, [&](std::int64_t row) {
    const std::int64_t gate = row * 2 * hidden, up = gate + hidden;
    kernel(element(dout, row * hidden), element(gate_up, gate), element(gate_up, up), element(dgate_up, gate),
           element(dgate_up, up), hidden);
  });
}

}  // namespace longwave
