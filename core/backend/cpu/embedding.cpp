#include "core/backend/cpu/embedding.h"

#include <cstring>

#include "core/backend/cpu/elementwise_kernels.h"
#include "core/backend/cpu/parallel.h"

namespace longwave {

void embedding_forward_cpu(Tensor ids, Tensor table, std::int64_t first, Tensor out) {
  const std::int64_t rows = ids.count(), vocabulary = table.shape[0], width = table.shape[1];
  LONGWAVE_CHECK(out.dtype == table.dtype && out.count() == rows * width);
  const std::int32_t* id_of = ids.as<std::int32_t>();
  const std::size_t row_bytes = static_cast<std::size_t>(width) * size_of(table.dtype);
  parallel_rows(rows, width, [&](std::int64_t row) {
    const std::int64_t id = id_of[row] - first;
    if (0 <= id && id < vocabulary) {
      std::memcpy(element(out, row * width), element(table, id * width), row_bytes);
    } else {
      std::memset(element(out, row * width), 0, row_bytes);
    }
  });
}

void embedding_backward_cpu(Tensor ids, Tensor dout, std::int64_t first, Tensor dtable) {
  const std::int64_t rows = ids.count(), vocabulary = dtable.shape[0], width = dtable.shape[1];
  LONGWAVE_CHECK(dout.count() == rows * width);
  const std::int32_t* id_of = ids.as<std::int32_t>();
  float* gradient = dtable.as<float>();
  const auto kernel = elementwise_kernels().accumulate[kernel_of(dout.dtype)];
  // Threads share the columns, not the rows or the ids: no two of them meet in an element, each element is summed in the
  // order of the rows, and frequent ids do not make one thread late.
  parallel_ranges(width, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t id = id_of[row] - first;
      if (id < 0 || id >= vocabulary) continue;
      kernel(element(dout, row * width + begin), gradient + id * width + begin, end - begin);
    }
  });
}

}  // namespace longwave
