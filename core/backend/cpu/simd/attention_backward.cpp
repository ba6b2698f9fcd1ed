#include "core/backend/cpu/simd/attention_softmax.inl.h"
#include "core/backend/cpu/simd/attention_tile.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

// One block's operands, packed.
template <class T> struct BackwardBlock {
  using Words = typename WordsOf<T>::type;
  using Word = typename Words::Word;

  const AttentionOperands& operands;
  AttentionBlock block;
  AttentionPartialSums sums;
  float* scratch;

  static constexpr std::int64_t area = tile * attention_max_head_dim;
  Word* area_words(int index) const { return reinterpret_cast<Word*>(scratch + index * area); }

  int head_dim = static_cast<int>(operands.head_dim);
  int words = head_dim / Words::pair;
  int columns = padded(head_dim);
  std::int64_t sums_row = (operands.head_dim + attention_lane_multiple - 1) / attention_lane_multiple * attention_lane_multiple;
  std::int64_t query_start = (block.sequence * operands.heads + block.head) * operands.length + block.first_query;
  std::int64_t key_start =
      (block.sequence * operands.kv_heads + block.head / (operands.heads / operands.kv_heads)) * operands.length;
  LogitScale scale = logit_scale(operands, block.head);
  QueryStatistics statistics{};
  Word* query_transposed = area_words(0);  // [words, tile]
  Word* dout_transposed = area_words(1);   // [words, tile]
  Right<Word> query_rows{};
  Right<Word> dout_rows{};
  float* dq = scratch + 4 * area;          // [tile, columns]
  float* products = scratch + 8 * area;            // S^T
  float* value_products = products + tile * tile;  // dP^T
  float* gradients = value_products + tile * tile;

  int rows_from(std::int64_t token) const {
    return static_cast<int>(operands.length - token < tile ? operands.length - token : tile);
  }

  void pack_queries() {
    const int queries = rows_from(block.first_query);
    const T* q = static_cast<const T*>(operands.q) + query_start * head_dim;
    const std::int64_t row = operands.heads * operands.head_dim;
    const std::int64_t token = (block.sequence * operands.length + block.first_query) * row + block.head * operands.head_dim;
    const T* out = static_cast<const T*>(operands.out) + token;
    const T* dout = static_cast<const T*>(operands.dout) + token;
    transpose(left_rows<Words>(q, head_dim, queries, head_dim, area_words(5)), words, query_transposed);
    transpose(left_rows<Words>(dout, row, queries, head_dim, area_words(5)), words, dout_transposed);
    query_rows = right_rows<Words>(q, head_dim, queries, head_dim, area_words(2));
    dout_rows = right_rows<Words>(dout, row, queries, head_dim, area_words(3));
    for (int i = 0; i < tile; ++i) {
      statistics.delta[i] = i < queries ? dot(out + i * row, dout + i * row, head_dim) : 0;
      statistics.lse[i] = i < queries ? operands.lse[query_start + i] * log2_e : 0;
    }
  }

  template <bool diagonal> void add_tile(std::int64_t key) {
    const int rows = rows_from(key);
    const T* k = static_cast<const T*>(operands.k) + (key_start + key) * head_dim;
    const T* v = static_cast<const T*>(operands.v) + (key_start + key) * head_dim;
    const Left<Word> key_left = left_rows<Words>(k, head_dim, rows, head_dim, area_words(5));
    const Left<Word> value_left = left_rows<Words>(v, head_dim, rows, head_dim, area_words(6));
    const Right<Word> key_right = right_rows<Words>(k, head_dim, rows, head_dim, area_words(7));
    constexpr Causal by_query = diagonal ? Causal::query_sum : Causal::full;
    constexpr Causal by_key = diagonal ? Causal::key_sum : Causal::full;
    constexpr Causal both = diagonal ? Causal::key_query : Causal::full;
    multiply<Words, both>(key_left, Right<Word>{query_transposed, tile}, products, tile, words, tile, false);
    multiply<Words, both>(value_left, Right<Word>{dout_transposed, tile}, value_products, tile, words, tile, false);

    // fp32 overwrites the products it has read; bf16 has three packed forms of half the size.
    const bool in_place = Words::pair == 1;
    Word* first = reinterpret_cast<Word*>(in_place ? products : gradients);
    Word* second = reinterpret_cast<Word*>(in_place ? value_products : gradients + tile * tile / 2);
    const TileGradients<Word> gradient{first, second, in_place ? second : second + tile * tile / 2};
    tile_gradients<Words, diagonal>(products, value_products, scale, static_cast<float>(block.first_query - key), statistics,
                                    gradient);
    constexpr int tile_words = tile / Words::pair;
    const std::int64_t at = key * sums_row;
    multiply<Words, by_key>(Left<Word>{gradient.probability, tile_words, 1}, dout_rows, sums.dv + at, sums_row, tile_words,
                            columns, true);
    multiply<Words, by_key>(Left<Word>{gradient.logit, tile_words, 1}, query_rows, sums.dk + at, sums_row, tile_words, columns,
                            true);
    multiply<Words, by_query>(Left<Word>{gradient.logit_by_key_pairs, 1, tile}, key_right, dq, columns, tile_words, columns,
                              key > 0);
  }

  void write_dq() const {
    T* to = static_cast<T*>(operands.dq) + query_start * head_dim;
    const int queries = rows_from(block.first_query);
    for (int i = 0; i < queries; ++i) {
      for (int d = 0; d < head_dim; d += lanes) {
        const Vec value = load(dq + i * columns + d) * operands.scale;
        if (d + lanes <= head_dim) {
          store(to + i * head_dim + d, value);
        } else {
          store_first(to + i * head_dim + d, value, head_dim - d);
        }
      }
    }
  }
};

template <class T>
void backward_block(const AttentionOperands& operands, AttentionBlock block, AttentionPartialSums sums, float* scratch) {
  BackwardBlock<T> work{operands, block, sums, scratch};
  work.pack_queries();
  for (std::int64_t key = 0; key < block.first_query; key += tile) work.template add_tile<false>(key);
  work.template add_tile<true>(block.first_query);
  work.write_dq();
}

template <class T>
void sum_parts(const float* from, std::int64_t parts, std::int64_t part_stride, float factor, T* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += lanes) {
    const std::int64_t rest = count - i;
    Vec total{};
    for (std::int64_t part = 0; part < parts; ++part) total += load(from + part * part_stride + i);  // rows are padded
    if (rest >= lanes) {
      store(to + i, total * factor);
    } else {
      store_first(to + i, total * factor, rest);
    }
  }
}

}  // namespace

constinit const AttentionBackwardKernels attention_backward_kernels = {
    .block_f32 = backward_block<float>,
    .block_bf16 = backward_block<Bf16Bits>,
    .sum_parts_f32 = sum_parts<float>,
    .sum_parts_bf16 = sum_parts<Bf16Bits>,
};

}  // namespace longwave::simd::LONGWAVE_ISA
