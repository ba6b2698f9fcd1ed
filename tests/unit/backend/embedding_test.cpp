#include "tests/unit/backend/device_tensor.h"

namespace longwave {
namespace {

class Embedding : public EveryActivationType {};

// ids on, below and above a shard that holds vocabulary rows 64 .. 64 + 65, with many repeats.
Values ids_of(std::int64_t rows) {
  Values ids;
  for (std::int64_t row = 0; row < rows; ++row) ids.push_back(row % 3 == 0 ? 77 : static_cast<double>(row * 37 % 193));
  return ids;
}

constexpr std::int64_t first = 64, shard_rows = 65;

bool on_shard(double id) { return id >= first && id < first + shard_rows; }

TEST_P(Embedding, ForwardCopiesOwnRowsAndZeroesOthers) {
  for (std::int64_t width : {1, 17, 65, 264, 300}) {
    for (std::int64_t rows : {1, 65, 300}) {
      const Values id_of = ids_of(rows);
      const DeviceTensor ids(DType::i32, {rows}, id_of), table(dtype(), {shard_rows, width}, "table");
      const DeviceTensor out(dtype(), {rows, width}, "old");
      backend().embedding_forward(ids, table, first, out);
      const Values weights = table.read();
      Values expected;
      for (double id : id_of) {
        for (std::int64_t i = 0; i < width; ++i) {
          const std::int64_t index = (static_cast<std::int64_t>(id) - first) * width + i;
          expected.push_back(on_shard(id) ? weights[static_cast<std::size_t>(index)] : 0);
        }
      }
      EXPECT_EQ(out.read(), expected) << rows << " rows of " << width;
    }
  }
}

TEST_P(Embedding, BackwardSumsTheRowsOfAnIdAndAdds) {
  for (std::int64_t width : {1, 17, 65, 264, 300}) {
    for (std::int64_t rows : {1, 65, 300}) {
      const Values id_of = ids_of(rows);
      const DeviceTensor ids(DType::i32, {rows}, id_of), dout(dtype(), {rows, width}, "dout");
      const DeviceTensor dtable(DType::f32, {shard_rows, width}, "old");
      Values expected = dtable.read();
      const Values gradient = dout.read();
      for (std::size_t row = 0; row < id_of.size(); ++row) {
        if (!on_shard(id_of[row])) continue;
        for (std::int64_t i = 0; i < width; ++i) {
          expected[static_cast<std::size_t>((static_cast<std::int64_t>(id_of[row]) - first) * width + i)] +=
              gradient[row * static_cast<std::size_t>(width) + static_cast<std::size_t>(i)];
        }
      }
      backend().embedding_backward(ids, dout, first, dtable);
      expect_close(dtable.read(), expected, 1e-6, 3e-5, "dtable");
    }
  }
}

INSTANTIATE_FOR_EVERY_ACTIVATION_TYPE(Embedding);

}  // namespace
}  // namespace longwave
