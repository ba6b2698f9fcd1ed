// Attention's blocks with their products on AMX tiles. Logits are held as S^T [keys, queries], so that a vector holds queries and
// their softmax needs no sums across lanes; probabilities and gradients of logits then are right operands, or left ones summed
// over queries, as they leave the registers. What would need them turned is computed transposed: O^T = V^T P^T, dQ^T = K^T dS^T.
#include "core/backend/cpu/attention_kernels.h"
#include "core/backend/cpu/simd/amx/pack.inl.h"
#include "core/backend/cpu/simd/amx/tiles.inl.h"
#include "core/backend/cpu/simd/attention_softmax.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

using Word = std::uint32_t;

// out [rows, columns] (+)= left [rows, depth] right [depth, columns], as far as `causal` says it matters: of
// - key_query, out [keys, queries]: blocks with some query >= key;
// - query_sum, here out [..., queries] summed over keys: keys of blocks up to the query's;
// - key_sum, out [keys, ...] summed over queries: queries of blocks from the key's on.
template <Causal causal>
void multiply_tiles(LeftTiles left, RightTiles right, float* out, std::int64_t out_row, std::int64_t rows, std::int64_t columns,
                    std::int64_t depth, bool accumulate) {
  finish_stores();
  for (std::int64_t n = 0; n < columns; n += amx_block) {
    for (std::int64_t m = 0; m < rows; m += amx_block) {
      if (causal == Causal::key_query && n + amx_block <= m) break;
      const std::int64_t begin = causal == Causal::key_sum ? m / amx_tile_depth : 0;
      const std::int64_t end = causal == Causal::query_sum ? n / amx_tile_depth + 1 : depth / amx_tile_depth;
      LeftTiles rows_of_m = left;
      rows_of_m.data += m / amx_tile_rows * left.block;
      RightTiles columns_of_n = right;
      columns_of_n.data += n / amx_tile_rows * right.block;
      float* to = out + m * out_row + n;
      if (accumulate) {
        load_block(to, out_row);
      } else {
        zero_block();
      }
      add_products(rows_of_m, columns_of_n, begin, end);
      store_block(to, out_row);
    }
  }
}

struct Range {
  const AttentionOperands& operands;
  AttentionBlock first;
  int blocks;  // of 64 queries

  int head_dim() const { return static_cast<int>(operands.head_dim); }
  std::int64_t first_query(int block) const { return first.first_query + block * tile; }
  std::int64_t last_key() const { return first_query(blocks - 1); }
  int rows_from(std::int64_t token) const {
    return static_cast<int>(operands.length - token < tile ? operands.length - token : tile);
  }
  std::int64_t queries() const { return (first.sequence * operands.heads + first.head) * operands.length; }
  std::int64_t keys() const {
    return (first.sequence * operands.kv_heads + first.head / (operands.heads / operands.kv_heads)) * operands.length;
  }
  // Element of [B, T, H, D] where this head's row of `token` begins.
  std::int64_t token_row(std::int64_t token) const {
    return ((first.sequence * operands.length + token) * operands.heads + first.head) * operands.head_dim;
  }
};

// Takes scratch memory piece by piece.
class Scratch {
 public:
  explicit Scratch(float* memory) : next_(memory) {}
  float* floats(std::int64_t count) {
    float* piece = next_;
    next_ += count;
    return piece;
  }
  Word* words(std::int64_t count) { return reinterpret_cast<Word*>(floats(count)); }
  Bf16Bits* halves(std::int64_t count) { return reinterpret_cast<Bf16Bits*>(floats(count / 2)); }

 private:
  float* next_;
};

// A tile's rows as a left operand: in place, or, where some are missing, copied with zeros.
LeftTiles tile_rows(const Bf16Bits* from, int rows, int head_dim, Bf16Bits* copy) {
  if (rows == tile) return left_rows_in_place(from, head_dim);
  left_rows<Bf16Words>(from, head_dim, rows, head_dim, reinterpret_cast<Word*>(copy));
  return left_rows_in_place(copy, head_dim);
}

// [head_dim, queries] * factors[query] to rows of `to`.
void write_turned(const float* from, const float* factors, int queries, int head_dim, Bf16Bits* to, std::int64_t to_row) {
  for (int q = 0; q < queries; q += lanes) {
    const Vec factor = load(factors + q);
    const int count = queries - q < lanes ? queries - q : lanes;
    for (int d = 0; d < head_dim; d += lanes) {
      Vec rows[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) rows[i] = load(from + (d + i) * tile + q) * factor;
      transpose_block(rows);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        if (i < count) store(to + (q + i) * to_row + d, rows[i]);
      }
    }
  }
}

// ---- forward

struct ForwardBlock {
  Word* query_columns = nullptr;  // Q^T [words, tile]
  float* out = nullptr;           // O^T [head_dim, tile]
  OnlineSoftmax state;
};

void rescale_columns(float* out, int head_dim, const float* factors) {
  Vec factor[tile / lanes];
  for (int i = 0; i < tile / lanes; ++i) factor[i] = load(factors + i * lanes);
  for (int d = 0; d < head_dim; ++d) {
#pragma GCC unroll 4
    for (int i = 0; i < tile / lanes; ++i) {
      float* at = out + d * tile + i * lanes;
      store(at, load(at) * factor[i]);
    }
  }
}

void forward(const AttentionOperands& operands, AttentionBlock first, int blocks, float* memory) {
  const Range range{operands, first, blocks};
  const int head_dim = range.head_dim();
  const Bf16Bits* q = static_cast<const Bf16Bits*>(operands.q) + range.queries() * head_dim;
  const Bf16Bits* k = static_cast<const Bf16Bits*>(operands.k) + range.keys() * head_dim;
  const Bf16Bits* v = static_cast<const Bf16Bits*>(operands.v) + range.keys() * head_dim;
  Scratch scratch(memory);
  Bf16Bits* const copied = scratch.halves(tile * head_dim);
  Bf16Bits* const values = scratch.halves(tile * head_dim);  // V^T, packed
  float* const products = scratch.floats(tile * tile);       // S^T
  Word* const probabilities = reinterpret_cast<Word*>(products);  // P^T, written behind what has been read
  ForwardBlock block[attention_most_query_blocks];
  for (int b = 0; b < blocks; ++b) {
    block[b].query_columns = scratch.words(tile * head_dim / 2);
    block[b].out = scratch.floats(tile * head_dim);
    const Bf16Bits* rows = q + range.first_query(b) * head_dim;
    const int queries = range.rows_from(range.first_query(b));
    transpose(left_rows<Bf16Words>(rows, head_dim, queries, head_dim, reinterpret_cast<Word*>(copied)), head_dim / 2,
              block[b].query_columns);
    for (int i = 0; i < tile; ++i) {
      block[b].state.maximum[i] = -3e38f;
      block[b].state.sum[i] = 0;
    }
  }

  configure_tiles();
  const LogitScale scale = logit_scale(operands, first.head);
  for (std::int64_t key = 0; key <= range.last_key(); key += tile) {
    const int rows = range.rows_from(key);
    const LeftTiles key_rows = tile_rows(k + key * head_dim, rows, head_dim, copied);
    pack_left_transposed(v + key * head_dim, head_dim, rows, head_dim, values, tile);
    for (int b = 0; b < blocks; ++b) {
      const std::int64_t query = range.first_query(b);
      if (query < key) continue;
      ForwardBlock& own = block[b];
      const bool diagonal = query == key;
      const auto products_of = diagonal ? multiply_tiles<Causal::key_query> : multiply_tiles<Causal::full>;
      const auto add_values = diagonal ? multiply_tiles<Causal::query_sum> : multiply_tiles<Causal::full>;
      products_of(key_rows, words_in_place(own.query_columns, tile), products, tile, tile, tile, head_dim, false);
      softmax<Bf16Words>(diagonal, products, probabilities, scale, static_cast<float>(query - key), own.state);
      if (own.state.moved && key > 0) rescale_columns(own.out, head_dim, own.state.rescale);
      add_values(packed_left(values, tile / amx_tile_depth), words_in_place(probabilities, tile), own.out, tile, head_dim, tile,
                 tile, key > 0);
    }
  }
  release_tiles();

  for (int b = 0; b < blocks; ++b) {
    const std::int64_t query = range.first_query(b);
    const int queries = range.rows_from(query);
    const OnlineSoftmax& state = block[b].state;
    float inverse[tile];
    for (int i = 0; i < tile; ++i) {
      inverse[i] = 1.0f / state.sum[i];
      if (i >= queries) continue;
      operands.lse[range.queries() + query + i] =
          static_cast<float>((state.maximum[i] + __builtin_log2(state.sum[i])) * double{ln_2});
    }
    write_turned(block[b].out, inverse, queries, head_dim, static_cast<Bf16Bits*>(operands.out) + range.token_row(query),
                 operands.heads * head_dim);
  }
}

// ---- backward

struct BackwardBlock {
  Word* query_columns = nullptr;  // Q^T [words, tile]
  Word* dout_columns = nullptr;   // dO^T [words, tile]
  Word* query_pairs = nullptr;    // Q [tile / 2, head_dim], pairs of queries
  Word* dout_pairs = nullptr;
  float* dq = nullptr;            // dQ^T [head_dim, tile]
  QueryStatistics statistics;
};

// What one tile of keys is multiplied with.
struct KeyTile {
  LeftTiles keys, values;
  LeftTiles keys_turned;  // K^T
  std::int64_t row = 0;    // of the partial sums
  float *dk = nullptr, *dv = nullptr;
};

struct TileProducts {
  float* logits = nullptr;  // S^T
  float* values = nullptr;  // dP^T
  TileGradients<Word> gradients{};
};

template <bool diagonal>
void add_tile(const KeyTile& keys, const BackwardBlock& queries, const TileProducts& work, LogitScale scale, float distance,
              int head_dim, bool first_keys) {
  constexpr Causal by_query = diagonal ? Causal::query_sum : Causal::full;
  constexpr Causal by_key = diagonal ? Causal::key_sum : Causal::full;
  constexpr Causal both = diagonal ? Causal::key_query : Causal::full;
  multiply_tiles<both>(keys.keys, words_in_place(queries.query_columns, tile), work.logits, tile, tile, tile, head_dim, false);
  multiply_tiles<both>(keys.values, words_in_place(queries.dout_columns, tile), work.values, tile, tile, tile, head_dim, false);
  tile_gradients<Bf16Words, diagonal>(work.logits, work.values, scale, distance, queries.statistics, work.gradients);
  const auto gradient_rows = [](const Word* rows) { return left_rows_in_place(reinterpret_cast<const Bf16Bits*>(rows), tile); };
  multiply_tiles<by_key>(gradient_rows(work.gradients.probability), words_in_place(queries.dout_pairs, head_dim), keys.dv,
                         keys.row, tile, head_dim, tile, true);
  multiply_tiles<by_key>(gradient_rows(work.gradients.logit), words_in_place(queries.query_pairs, head_dim), keys.dk, keys.row,
                         tile, head_dim, tile, true);
  multiply_tiles<by_query>(keys.keys_turned, words_in_place(work.gradients.logit_by_key_pairs, tile), queries.dq, tile, head_dim,
                           tile, tile, !first_keys);
}

void pack_queries(const Range& range, int b, Word* copied, BackwardBlock& block) {
  const AttentionOperands& operands = range.operands;
  const int head_dim = range.head_dim();
  const std::int64_t query = range.first_query(b);
  const int queries = range.rows_from(query);
  const std::int64_t row = operands.heads * operands.head_dim;
  const Bf16Bits* q = static_cast<const Bf16Bits*>(operands.q) + (range.queries() + query) * head_dim;
  const Bf16Bits* out = static_cast<const Bf16Bits*>(operands.out) + range.token_row(query);
  const Bf16Bits* dout = static_cast<const Bf16Bits*>(operands.dout) + range.token_row(query);
  transpose(left_rows<Bf16Words>(q, head_dim, queries, head_dim, copied), head_dim / 2, block.query_columns);
  transpose(left_rows<Bf16Words>(dout, row, queries, head_dim, copied), head_dim / 2, block.dout_columns);
  right_rows<Bf16Words>(q, head_dim, queries, head_dim, block.query_pairs);
  right_rows<Bf16Words>(dout, row, queries, head_dim, block.dout_pairs);
  for (int i = 0; i < tile; ++i) {
    block.statistics.delta[i] = i < queries ? dot(out + i * row, dout + i * row, head_dim) : 0;
    block.statistics.lse[i] = i < queries ? operands.lse[range.queries() + query + i] * log2_e : 0;
  }
}

void backward(const AttentionOperands& operands, AttentionBlock first, int blocks, AttentionPartialSums sums, float* memory) {
  const Range range{operands, first, blocks};
  const int head_dim = range.head_dim();
  const std::int64_t area = tile * head_dim;
  const Bf16Bits* k = static_cast<const Bf16Bits*>(operands.k) + range.keys() * head_dim;
  const Bf16Bits* v = static_cast<const Bf16Bits*>(operands.v) + range.keys() * head_dim;
  Scratch scratch(memory);
  Bf16Bits* const copied_keys = scratch.halves(area);
  Bf16Bits* const copied_values = scratch.halves(area);
  Bf16Bits* const keys_turned = scratch.halves(area);
  TileProducts work;
  work.logits = scratch.floats(tile * tile);
  work.values = scratch.floats(tile * tile);
  work.gradients = {scratch.words(tile * tile / 2), scratch.words(tile * tile / 2), scratch.words(tile * tile / 2)};
  BackwardBlock block[attention_most_query_blocks];
  for (int b = 0; b < blocks; ++b) {
    block[b].query_columns = scratch.words(area / 2);
    block[b].dout_columns = scratch.words(area / 2);
    block[b].query_pairs = scratch.words(area / 2);
    block[b].dout_pairs = scratch.words(area / 2);
    block[b].dq = scratch.floats(area);
    pack_queries(range, b, reinterpret_cast<Word*>(copied_keys), block[b]);
  }

  configure_tiles();
  const LogitScale scale = logit_scale(operands, first.head);
  for (std::int64_t key = 0; key <= range.last_key(); key += tile) {
    const int rows = range.rows_from(key);
    KeyTile keys;
    keys.keys = tile_rows(k + key * head_dim, rows, head_dim, copied_keys);
    keys.values = tile_rows(v + key * head_dim, rows, head_dim, copied_values);
    pack_left_transposed(k + key * head_dim, head_dim, rows, head_dim, keys_turned, tile);
    keys.keys_turned = packed_left(keys_turned, tile / amx_tile_depth);
    keys.row = head_dim;  // a multiple of attention_lane_multiple
    keys.dk = sums.dk + key * head_dim;
    keys.dv = sums.dv + key * head_dim;
    for (int b = 0; b < blocks; ++b) {
      const std::int64_t query = range.first_query(b);
      if (query < key) continue;
      const auto add = query == key ? add_tile<true> : add_tile<false>;
      add(keys, block[b], work, scale, static_cast<float>(query - key), head_dim, key == 0);
    }
  }
  release_tiles();

  float factors[tile];
  for (float& factor : factors) factor = operands.scale;
  for (int b = 0; b < blocks; ++b) {
    const std::int64_t query = range.first_query(b);
    write_turned(block[b].dq, factors, range.rows_from(query), head_dim,
                 static_cast<Bf16Bits*>(operands.dq) + (range.queries() + query) * head_dim, head_dim);
  }
}

}  // namespace

constinit const AmxAttentionKernels amx_attention_kernels = {.forward = forward, .backward = backward};

}  // namespace longwave::simd::LONGWAVE_ISA
