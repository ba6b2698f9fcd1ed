#include "core/backend/cpu/norm.h"

#include <algorithm>

#include "core/backend/cpu/norm_kernels.h"
#include "core/backend/cpu/parallel.h"

namespace longwave {

LONGWAVE_DEFINE_KERNELS(NormKernels, norm_kernels)

namespace {

struct Rows {
  std::int64_t rows, width;
};

Rows check_norm(const Tensor& x, const Tensor& y, const Tensor& gain, const Tensor& rstd) {
  const std::int64_t width = gain.count();
  LONGWAVE_CHECK(x.dtype == y.dtype && x.dtype == gain.dtype && x.count() == y.count());
  LONGWAVE_CHECK(width > 0 && x.count() % width == 0 && rstd.count() >= x.count() / width);
  return {x.count() / width, width};
}

}  // namespace

void rmsnorm_forward_cpu(Tensor x, Tensor gain, float epsilon, Tensor y, Tensor rstd) {
  const auto [rows, width] = check_norm(x, y, gain, rstd);
  const auto kernel = norm_kernels().forward[kernel_of(x.dtype)];
  float* rstd_of = rstd.as<float>();
  parallel_rows(rows, width, [&, width = width](std::int64_t row) {
    rstd_of[row] = kernel(element(x, row * width), gain.data, epsilon, element(y, row * width), width);
  });
}

void add_rmsnorm_forward_cpu(Tensor residual, Tensor branch, Tensor gain, float epsilon, Tensor y, Tensor rstd) {
  const auto [rows, width] = check_norm(residual, y, gain, rstd);
  LONGWAVE_CHECK(branch.dtype == residual.dtype && branch.count() == residual.count());
  const auto kernel = norm_kernels().add_forward[kernel_of(residual.dtype)];
  float* rstd_of = rstd.as<float>();
  parallel_rows(rows, width, [&, width = width](std::int64_t row) {
    rstd_of[row] = kernel(element(residual, row * width), element(branch, row * width), gain.data, epsilon,
                          element(y, row * width), width);
  });
}

void rmsnorm_backward_cpu(Tensor dy, Tensor x, Tensor gain, Tensor rstd, Tensor dx, Tensor dgain, Scratch& scratch) {
  const auto [rows, width] = check_norm(x, dx, gain, rstd);
  LONGWAVE_CHECK(dy.dtype == x.dtype && dy.count() == x.count() && dgain.count() == gain.count());
  const auto kernel = norm_kernels().backward[kernel_of(x.dtype)];
  const float* rstd_of = rstd.as<float>();
  float* total = dgain.as<float>();
  // dgain sums over rows: each block of rows into a line of its own, then the lines in order, so that the order of the sum
  // does not depend on the threads. At most 64 blocks bound the working memory.
  const std::int64_t block_rows = std::max<std::int64_t>(16, divide_up(rows, 64));
  const std::int64_t blocks = divide_up(rows, block_rows);
  float* partial = scratch.get<float>(blocks * width);  // [blocks, width]
  parallel_ranges(rows, block_rows, [&, width = width](std::int64_t begin, std::int64_t end) {
    float* line = partial + begin / block_rows * width;
    std::fill(line, line + width, 0.0f);
    for (std::int64_t row = begin; row < end; ++row) {
      kernel(element(dy, row * width), element(x, row * width), gain.data, rstd_of[row], element(dx, row * width), line, width);
    }
  });
  parallel_ranges(width, 256, [&, width = width](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      for (std::int64_t i = begin; i < end; ++i) total[i] += partial[block * width + i];
    }
  });
}

}  // namespace longwave
