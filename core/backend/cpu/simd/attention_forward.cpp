#include "core/backend/cpu/simd/attention_softmax.inl.h"
#include "core/backend/cpu/simd/attention_tile.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

void rescale_rows(float* rows, int columns, const float* factors) {
  for (int r = 0; r < tile; ++r) {
    for (int d = 0; d < columns; d += lanes) store(rows + r * columns + d, load(rows + r * columns + d) * factors[r]);
  }
}

template <class T> void write_row(const float* from, float factor, T* to, int count) {
  int d = 0;
  for (; d + lanes <= count; d += lanes) store(to + d, load(from + d) * factor);
  if (d < count) store_first(to + d, load_first(from + d, count - d) * factor, count - d);
}

template <class T> void forward_block(const AttentionOperands& operands, AttentionBlock block, float* scratch) {
  using Words = typename WordsOf<T>::type;
  using Word = typename Words::Word;
  const int head_dim = static_cast<int>(operands.head_dim);
  const int words = head_dim / Words::pair;
  const int columns = padded(head_dim);
  const std::int64_t kv_head = block.head / (operands.heads / operands.kv_heads);
  const std::int64_t query_start = (block.sequence * operands.heads + block.head) * operands.length + block.first_query;
  const std::int64_t key_start = (block.sequence * operands.kv_heads + kv_head) * operands.length;
  const T* keys = static_cast<const T*>(operands.k) + key_start * head_dim;
  const T* values = static_cast<const T*>(operands.v) + key_start * head_dim;
  const auto rows_from = [&](std::int64_t token) {
    return static_cast<int>(operands.length - token < tile ? operands.length - token : tile);
  };

  constexpr std::int64_t area = tile * attention_max_head_dim;
  Word* query_words = reinterpret_cast<Word*>(scratch);            // Q^T [words, tile]
  Word* key_scratch = reinterpret_cast<Word*>(scratch + area);     // [tile, words]
  Word* value_scratch = reinterpret_cast<Word*>(scratch + 2 * area);  // [tile / pair, columns]
  float* out = scratch + 3 * area;                                 // [tile, columns]
  float* products = scratch + 4 * area;                            // S^T [tile, tile]
  Word* probabilities = reinterpret_cast<Word*>(products);         // P^T, written behind what has been read
  OnlineSoftmax state;

  const int queries = rows_from(block.first_query);
  const T* query_rows = static_cast<const T*>(operands.q) + query_start * head_dim;
  transpose(left_rows<Words>(query_rows, head_dim, queries, head_dim, key_scratch), words, query_words);
  for (int i = 0; i < tile; ++i) {
    state.maximum[i] = -3e38f;
    state.sum[i] = 0;
  }
  const LogitScale scale = logit_scale(operands, block.head);
  for (std::int64_t key = 0; key <= block.first_query; key += tile) {
    const bool diagonal = key == block.first_query;
    const int rows = rows_from(key);
    const Left<Word> key_rows = left_rows<Words>(keys + key * head_dim, head_dim, rows, head_dim, key_scratch);
    const Right<Word> value_rows = right_rows<Words>(values + key * head_dim, head_dim, rows, head_dim, value_scratch);
    const Right<Word> query_columns{query_words, tile};
    if (diagonal) {
      multiply<Words, Causal::key_query>(key_rows, query_columns, products, tile, words, tile, false);
    } else {
      multiply<Words, Causal::full>(key_rows, query_columns, products, tile, words, tile, false);
    }
    const auto distance = static_cast<float>(block.first_query - key);
    const bool moved = softmax<Words>(diagonal, products, probabilities, scale, distance, state);
    if (moved && key > 0) rescale_rows(out, columns, state.rescale);
    const Left<Word> weights{probabilities, 1, tile};
    if (diagonal) {
      multiply<Words, Causal::query_sum>(weights, value_rows, out, columns, tile / Words::pair, columns, key > 0);
    } else {
      multiply<Words, Causal::full>(weights, value_rows, out, columns, tile / Words::pair, columns, key > 0);
    }
  }

  for (int i = 0; i < queries; ++i) {
    const std::int64_t token = block.sequence * operands.length + block.first_query + i;
    T* to = static_cast<T*>(operands.out) + (token * operands.heads + block.head) * head_dim;
    write_row(out + i * columns, 1.0f / state.sum[i], to, head_dim);
    operands.lse[query_start + i] = static_cast<float>((state.maximum[i] + __builtin_log2(state.sum[i])) * double{ln_2});
  }
}

}  // namespace

constinit const AttentionForwardKernels attention_forward_kernels = {
    .block_f32 = forward_block<float>,
    .block_bf16 = forward_block<Bf16Bits>,
};

}  // namespace longwave::simd::LONGWAVE_ISA
