#include "core/backend/cuda/qkv_item.h"

namespace longwave::cuda {
namespace {

using namespace device;

constexpr int block_threads = qkv_threads;
constexpr int tile = 32;       // positions of a block
constexpr int wave_tile = 32;  // frequencies in shared memory at a time
constexpr int rows = 4;        // positions of a thread

LONGWAVE_DEVICE int smaller(std::int64_t a, int b) { return a < b ? static_cast<int>(a) : b; }

// Where a block keeps the series of its positions: waves [wave_tile, tile], lines [tile, columns].
struct SeriesMemory {
  float* wave_cosines;
  float* wave_sines;
  float* cosines;
  float* sines;
};

template <int D> constexpr int series_floats = 2 * tile * (wave_tile + D / 2);
template <int D> LONGWAVE_DEVICE SeriesMemory divide(float* shared) {
  float* const lines = shared + 2 * wave_tile * tile;
  return {shared, shared + wave_tile * tile, lines, lines + tile * D / 2};
}

// cos(t w) and sin(t w) of the tile's positions and of frequencies [from, from + count): angles in fp64, as in the table.
LONGWAVE_DEVICE void evaluate_waves(const SeriesOperands& series, const SeriesMemory& memory, std::int64_t first, std::int64_t from,
                                    int count) {
  for (int i = thread(); i < count * tile; i += block_threads) {
    double sine, cosine;
    sincos(static_cast<double>(first + i % tile) * series.frequencies[from + i / tile], &sine, &cosine);
    memory.wave_cosines[i] = static_cast<float>(cosine);
    memory.wave_sines[i] = static_cast<float>(sine);
  }
}

// Adds frequencies [from, from + count) to the sums of `column` at positions [row, row + rows) of the tile.
LONGWAVE_DEVICE void add_waves(const SeriesOperands& series, const SeriesMemory& memory, std::int64_t first_weight,
                               std::int64_t columns, std::int64_t from, int count, int column, int row, float (&c)[rows],
                               float (&s)[rows]) {
  const bool identity = series.cosine_coefficients == nullptr;
  if (identity && (column < from || column >= from + count)) return;
  const int begin = identity ? static_cast<int>(column - from) : 0, end = identity ? begin + 1 : count;
  for (int i = begin; i < end; ++i) {
    const std::int64_t weight = first_weight + (from + i) * columns + column;
    const float cosine_weight = identity ? 1.0f : series.cosine_coefficients[weight];
    const float sine_weight = identity ? 1.0f : series.sine_coefficients[weight];
    float wave_cosines[rows], wave_sines[rows];
    load_pack(memory.wave_cosines + i * tile + row, wave_cosines);
    load_pack(memory.wave_sines + i * tile + row, wave_sines);
    LONGWAVE_UNROLL
    for (int e = 0; e < rows; ++e) {
      c[e] += wave_cosines[e] * cosine_weight;
      s[e] += wave_sines[e] * sine_weight;
    }
  }
}

// The lines of positions [first, first + tile). Sums are fp32 in the order of the frequencies, wrong by less than 1e-5 of the
// largest coefficient; what they multiply is rounded to bf16.
LONGWAVE_DEVICE void evaluate_series(const QkvOperands& o, std::int64_t first, std::int64_t head, const SeriesMemory& memory) {
  const SeriesOperands& series = o.series;
  const int columns = static_cast<int>(o.columns), items = columns * (tile / rows);
  // All threads go round together, since they share the waves.
  for (int begin = 0; begin < items; begin += block_threads) {
    const bool active = begin + thread() < items;
    const int column = (begin + thread()) % columns, row = (begin + thread()) / columns * rows;
    float c[rows] = {}, s[rows] = {};
    for (std::int64_t from = 0; from < series.count; from += wave_tile) {
      const int count = smaller(series.count - from, wave_tile);
      barrier();
      evaluate_waves(series, memory, first, from, count);
      barrier();
      if (active) add_waves(series, memory, head * series.count * columns, columns, from, count, column, row, c, s);
    }
    if (!active) continue;
    LONGWAVE_UNROLL
    for (int e = 0; e < rows; ++e) {
      memory.cosines[(row + e) * columns + column] = series.scale * c[e];
      memory.sines[(row + e) * columns + column] = series.scale * s[e];
    }
  }
  barrier();
}

// Waves of the block's tile.
template <int D> struct SeriesWaves {
  const QkvOperands& o;
  const SeriesMemory& memory;
  std::int64_t first;

  LONGWAVE_DEVICE bool rotates() const { return true; }
  LONGWAVE_DEVICE void load(const QkvItem<D>& item, float (&c)[8], float (&s)[8]) const {
    const std::int64_t line = (item.position - first) * o.columns;
    load_waves(o, memory.cosines + line, memory.sines + line, item.part * 8, c, s);
  }
};

// A block has a tile of positions and a KV head: all of the heads that share its lines, in all sequences.
LONGWAVE_DEVICE QkvGroup group_of(const QkvOperands& o, std::int64_t tile_index, std::int64_t kv_head) {
  const std::int64_t first = tile_index * tile;
  return {first, smaller(o.length - first, tile), kv_head, 0, o.heads / o.kv_heads + 2};
}

template <int D, bool backward> LONGWAVE_KERNEL(block_threads) qkv_series_kernel(QkvOperands o) {
  LONGWAVE_SHARED(float, shared, series_floats<D>);
  const SeriesMemory memory = divide<D>(shared);
  const QkvGroup group = group_of(o, block_x(), block_y());
  evaluate_series(o, group.first, o.table_heads == 1 ? 0 : group.kv_head, memory);
  const SeriesWaves<D> waves = {o, memory, group.first};
  const std::int64_t items = QkvItem<D>::items(o, group);
  for (std::int64_t begin = 0; begin < items; begin += block_threads) {
    const QkvItem<D> item(o, begin + thread(), group);
    if constexpr (backward) {
      split_backward(o, item, waves);
    } else {
      split_forward(o, item, waves);
    }
  }
}

// Part of the gradient of query_gain or key_gain: over `members` of the groups of a share of the tiles.
template <int D>
LONGWAVE_KERNEL(block_threads)
series_gain_gradient_kernel(QkvOperands o, std::int64_t first_member, std::int64_t members, float* partial) {
  LONGWAVE_SHARED(float, sums, block_threads * 16);
  LONGWAVE_SHARED(float, shared, series_floats<D>);
  const SeriesMemory memory = divide<D>(shared);
  float low_sum[8] = {}, high_sum[8] = {};
  const std::int64_t tiles = (o.length + tile - 1) / tile;
  for (std::int64_t unit = block_x(); unit < tiles * o.kv_heads; unit += grid_x()) {
    QkvGroup group = group_of(o, unit % tiles, unit / tiles);
    group.first_member = first_member;
    group.members = members;
    evaluate_series(o, group.first, o.table_heads == 1 ? 0 : group.kv_head, memory);
    const SeriesWaves<D> waves = {o, memory, group.first};
    const std::int64_t items = QkvItem<D>::items(o, group);
    for (std::int64_t index = thread(); index < items; index += block_threads) {
      add_gain_gradient(o, QkvItem<D>(o, index, group), waves, low_sum, high_sum);
    }
  }
  store_gain_gradient<D>(sums, low_sum, high_sum, partial);
}

Grid grid_of(const QkvOperands& o) { return {.x = blocks_of(o.length, tile), .y = o.kv_heads}; }

template <int D>
void launch_backward(cudaStream_t stream, const QkvOperands& o, float* dquery_gain, float* dkey_gain, float* partial) {
  launch("qkv_series_backward", qkv_series_kernel<D, true>, grid_of(o), block_threads, 0, stream, o);
  if (o.query_gain == nullptr) return;
  const std::int64_t readers = o.heads / o.kv_heads;
  launch("series_query_gain_gradient", series_gain_gradient_kernel<D>, {.x = gain_blocks}, block_threads, 0, stream, o, 0, readers,
         partial);
  add_lines(stream, partial, gain_blocks, D, dquery_gain);
  launch("series_key_gain_gradient", series_gain_gradient_kernel<D>, {.x = gain_blocks}, block_threads, 0, stream, o, readers, 1,
         partial);
  add_lines(stream, partial, gain_blocks, D, dkey_gain);
}

}  // namespace

void qkv_series_forward(cudaStream_t stream, const QkvOperands& operands, std::int64_t head_dim) {
  if (head_dim == 64) {
    launch("qkv_series_forward", qkv_series_kernel<64, false>, grid_of(operands), block_threads, 0, stream, operands);
  } else {
    launch("qkv_series_forward", qkv_series_kernel<128, false>, grid_of(operands), block_threads, 0, stream, operands);
  }
}

void qkv_series_backward(cudaStream_t stream, const QkvOperands& operands, std::int64_t head_dim, float* dquery_gain,
                         float* dkey_gain, float* partial) {
  if (head_dim == 64) {
    launch_backward<64>(stream, operands, dquery_gain, dkey_gain, partial);
  } else {
    launch_backward<128>(stream, operands, dquery_gain, dkey_gain, partial);
  }
}

}  // namespace longwave::cuda
