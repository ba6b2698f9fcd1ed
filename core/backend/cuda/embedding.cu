#include "core/backend/cuda/kernels.h"
#include "core/backend/cuda/pack.h"

namespace longwave::cuda {
namespace {

using namespace device;

constexpr int rows_a_block = 4;  // a warp each

template <int N>
LONGWAVE_KERNEL(rows_a_block * 32)
embedding_forward_kernel(const std::int32_t* ids, const Bf16* table, std::int64_t first, Bf16* out, std::int64_t rows,
                         std::int64_t vocabulary, std::int64_t width) {
  const std::int64_t row = static_cast<std::int64_t>(block_x()) * rows_a_block + thread() / 32;
  if (row >= rows) return;
  const std::int64_t id = ids[row] - first;
  const bool here = 0 <= id && id < vocabulary;
  for (std::int64_t i = thread() % 32 * N; i < width; i += 32 * N) {
    float value[N] = {};
    if (here) load_pack(table + id * width + i, value);
    store_pack(out + row * width + i, value);
  }
}

// Rows come in chunks, one launch after the other. In a chunk the first row of an id adds up all rows of that id and alone
// writes its line of dtable: no atomics, and every sum is in the order of the rows.
constexpr int chunk_rows = 2048;
constexpr int backward_threads = 128;

template <int N>
LONGWAVE_KERNEL(backward_threads)
embedding_backward_kernel(const std::int32_t* ids, const Bf16* dout, std::int64_t first, float* dtable, int rows,
                          std::int64_t vocabulary, std::int64_t width) {
  LONGWAVE_SHARED(std::int32_t, chunk, chunk_rows);
  LONGWAVE_SHARED(int, earlier, backward_threads / 32);
  const int own = block_x();
  const std::int32_t id = ids[own];
  const std::int64_t line = id - first;
  if (line < 0 || line >= vocabulary) return;  // the whole block
  bool found = false;
  for (int row = thread(); row < rows; row += threads()) {
    chunk[row] = ids[row];
    found |= row < own && chunk[row] == id;
  }
  const bool in_warp = any(found);
  if (thread() % 32 == 0) earlier[thread() / 32] = in_warp ? 1 : 0;
  barrier();
  for (int warp = 0; warp < backward_threads / 32; ++warp) {
    if (earlier[warp] != 0) return;  // the whole block
  }
  for (std::int64_t i = thread() * N; i < width; i += static_cast<std::int64_t>(threads()) * N) {
    float sum[N] = {};
    for (int row = own; row < rows; ++row) {
      if (chunk[row] != id) continue;
      float value[N];
      load_pack(dout + row * width + i, value);
      LONGWAVE_UNROLL
      for (int e = 0; e < N; ++e) sum[e] += value[e];
    }
    float total[N];
    load_pack(dtable + line * width + i, total);
    LONGWAVE_UNROLL
    for (int e = 0; e < N; ++e) total[e] += sum[e];
    store_pack(dtable + line * width + i, total);
  }
}

}  // namespace

void embedding_forward(cudaStream_t stream, const std::int32_t* ids, const Bf16* table, std::int64_t first, Bf16* out,
                       std::int64_t rows, std::int64_t vocabulary, std::int64_t width) {
  const bool wide = packs_of_8(width, table, out);
  launch("embedding_forward", wide ? embedding_forward_kernel<8> : embedding_forward_kernel<1>,
         {.x = blocks_of(rows, rows_a_block)}, rows_a_block * 32, 0, stream, ids, table, first, out, rows, vocabulary, width);
}

void embedding_backward(cudaStream_t stream, const std::int32_t* ids, const Bf16* dout, std::int64_t first, float* dtable,
                        std::int64_t rows, std::int64_t vocabulary, std::int64_t width) {
  const bool wide = packs_of_8(width, dout, dtable);
  for (std::int64_t begin = 0; begin < rows; begin += chunk_rows) {
    const std::int64_t count = rows - begin < chunk_rows ? rows - begin : chunk_rows;
    launch("embedding_backward", wide ? embedding_backward_kernel<8> : embedding_backward_kernel<1>, {.x = count},
           backward_threads, 0, stream, ids + begin, dout + begin * width, first, dtable, count, vocabulary, width);
  }
}

}  // namespace longwave::cuda
