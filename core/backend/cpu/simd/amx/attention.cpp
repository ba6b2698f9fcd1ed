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

// Rows m.. and columns n.. of out (+)= left right, over [begin, end) of the summed axis in tiles: 32 x 32.
inline void multiply_part(LeftTiles left, RightTiles right, float* out, std::int64_t out_row, std::int64_t m, std::int64_t n,
                          std::int64_t begin, std::int64_t end, bool accumulate) {
  left.data += m / amx_tile_rows * left.block;
  right.data += n / amx_tile_rows * right.block;
  float* const to = out + m * out_row + n;
  if (accumulate) {
    load_block(to, out_row);
  } else {
    zero_block();
  }
  add_products(left, right, begin, end);
  store_block(to, out_row);
}

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
      multiply_part(left, right, out, out_row, m, n, begin, end, accumulate);
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

// A tile of keys with a block of queries. Its products are taken a part at a time, beside the softmax of another tile: what
// the tiles multiply and what the vectors compute then go on at once, as far ahead as the processor looks.
struct ForwardTile {
  ForwardBlock* queries = nullptr;  // none: no tile
  int block = 0;
  std::int64_t key = 0;
  float key_distance = 0;  // first query - first key
  LeftTiles keys;          // rows of K
  LeftTiles values;        // V^T, packed
  float* products = nullptr;  // S^T, then P^T behind what has been read

  bool diagonal() const { return key_distance == 0; }
  Word* probabilities() const { return reinterpret_cast<Word*>(products); }
};

constexpr int forward_parts = 4;  // of a tile: blocks of S^T, and groups of lanes of its softmax
static_assert(forward_parts == (tile / amx_block) * (tile / amx_block) && forward_parts == tile / lanes);

// Those of the first 32 queries first, whose probabilities are done with when the others' are still wanted.
void multiply_logits(const ForwardTile& of, int head_dim, int part) {
  const std::int64_t m = part % 2 * amx_block, n = part / 2 * amx_block;
  if (of.diagonal() && n < m) return;
  finish_stores();
  multiply_part(of.keys, words_in_place(of.queries->query_columns, tile), of.products, tile, m, n, 0, head_dim / amx_tile_depth,
                false);
}

// O^T += V^T P^T for 32 queries, one half of the rows.
void add_values(const ForwardTile& of, int head_dim, int queries, int half) {
  const std::int64_t n = queries * amx_block, end = of.diagonal() ? n / amx_tile_depth + 1 : tile / amx_tile_depth;
  const std::int64_t blocks = head_dim / amx_block, middle = (blocks + 1) / 2;
  finish_stores();
  for (std::int64_t m = half == 0 ? 0 : middle; m < (half == 0 ? middle : blocks); ++m) {
    multiply_part(of.values, words_in_place(of.probabilities(), tile), of.queries->out, tile, m * amx_block, n, 0, end, of.key > 0);
  }
}

void rescale_columns(float* out, int head_dim, const float* factors, int first) {
  const Vec factor = load(factors + first);
  for (int d = 0; d < head_dim; ++d) store(out + d * tile + first, load(out + d * tile + first) * factor);
}

void forward(const AttentionOperands& operands, AttentionBlock first, int blocks, float* memory) {
  const Range range{operands, first, blocks};
  const int head_dim = range.head_dim();
  const Bf16Bits* q = static_cast<const Bf16Bits*>(operands.q) + range.queries() * head_dim;
  const Bf16Bits* k = static_cast<const Bf16Bits*>(operands.k) + range.keys() * head_dim;
  const Bf16Bits* v = static_cast<const Bf16Bits*>(operands.v) + range.keys() * head_dim;
  Scratch scratch(memory);
  Bf16Bits* const copied = scratch.halves(tile * head_dim);
  Bf16Bits* const values[2] = {scratch.halves(tile * head_dim), scratch.halves(tile * head_dim)};  // V^T of two tiles of keys
  float* const products[2] = {scratch.floats(tile * tile), scratch.floats(tile * tile)};
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

  // Tiles in their order: all blocks of queries that a tile of keys has, then the next keys.
  int made = 0;
  const auto tile_of = [&](std::int64_t key, int b) {
    ForwardTile of;
    if (key > range.last_key()) return of;
    of.queries = &block[b];
    of.block = b;
    of.key = key;
    of.key_distance = static_cast<float>(range.first_query(b) - key);
    of.keys = tile_rows(k + key * head_dim, range.rows_from(key), head_dim, copied);
    of.values = packed_left(values[key / tile % 2], tile / amx_tile_depth);
    of.products = products[made++ % 2];
    return of;
  };
  const auto tile_after = [&](const ForwardTile& of) {
    if (of.block + 1 < blocks) return tile_of(of.key, of.block + 1);
    const std::int64_t key = of.key + tile;
    return tile_of(key, key <= range.first_query(0) ? 0 : static_cast<int>((key - range.first_query(0)) / tile));
  };
  const auto pack_values = [&](std::int64_t key) {
    pack_left_transposed(v + key * head_dim, head_dim, range.rows_from(key), head_dim, values[key / tile % 2], tile);
  };

  configure_tiles();
  const LogitScale scale = logit_scale(operands, first.head);
  ForwardTile before, now = tile_of(0, 0);
  pack_values(0);
  for (int part = 0; part < forward_parts; ++part) multiply_logits(now, head_dim, part);
  while (now.queries != nullptr) {
    const ForwardTile next = tile_after(now);
    ForwardBlock& own = *now.queries;
    const SoftmaxLanes<Bf16Words> softmax_lanes_of = softmax_of<Bf16Words>(now.diagonal(), scale);
    for (int part = 0; part < forward_parts; ++part) {
      if (next.queries != nullptr) multiply_logits(next, head_dim, part);
      // The second 32 queries of the tile before, then the first 32 of this one.
      const ForwardTile& done = part < 2 ? before : now;
      if (done.queries != nullptr) add_values(done, head_dim, part < 2 ? 1 : 0, part % 2);
      const int lane = part * lanes;
      const bool moved = softmax_lanes_of(now.products, now.probabilities(), scale, now.key_distance, own.state, lane);
      if (moved && now.key > 0) rescale_columns(own.out, head_dim, own.state.rescale, lane);
    }
    if (next.queries != nullptr && next.key != now.key) pack_values(next.key);
    before = now;
    now = next;
  }
  for (int half = 0; half < 2; ++half) add_values(before, head_dim, 1, half);
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
