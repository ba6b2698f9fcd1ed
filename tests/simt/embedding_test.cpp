// The CUDA kernel takes rows in chunks, in which the first row of an id adds up all of them.
#include "tests/unit/backend/device_tensor.h"

namespace longwave {
namespace {

TEST(CudaEmbedding, RepeatsSideBySideAndAcrossChunksCountOnce) {
  const std::int64_t rows = 4501, width = 8, vocabulary = 700;
  Values id_of;
  for (std::int64_t row = 0; row < rows; ++row) id_of.push_back(static_cast<double>(row / 2 % vocabulary));
  const DeviceTensor ids(DType::i32, {rows}, id_of), dout(DType::bf16, {rows, width}, "dout");
  const DeviceTensor dtable(DType::f32, {vocabulary, width}, "old");
  Values expected = dtable.read();
  const Values gradient = dout.read();
  for (std::size_t row = 0; row < id_of.size(); ++row) {
    for (std::size_t i = 0; i < 8; ++i) expected[static_cast<std::size_t>(id_of[row]) * 8 + i] += gradient[row * 8 + i];
  }
  backend_under_test().embedding_backward(ids, dout, 0, dtable);
  expect_close(dtable.read(), expected, 1e-6, 1e-5, "dtable");
}

}  // namespace
}  // namespace longwave
