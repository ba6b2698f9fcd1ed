// Small matrix products and packing for one attention tile. For the attention sources of this folder only.
//
// A product multiplies 32-bit words: an fp32, or, where the processor has AVX512-BF16, a pair of bf16 that are neighbours
// along the summed axis and whose dot product one instruction adds to an fp32. The left operand is read a word at a time
// and broadcast, so it needs no packing and may be transposed; the right one is read in vectors along its rows.
#pragma once

#include "core/backend/cpu/attention_kernels.h"
#include "core/backend/cpu/simd/transpose.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

inline constexpr int tile = static_cast<int>(attention_block);

struct FloatWords {
  using Word = float;
  static constexpr int pair = 1;  // elements of the summed axis in a word
  static constexpr int row_group = 4;  // rows and
  static constexpr int column_group = lanes == 16 ? 4 : 2;  // vectors of a product that stay in registers
  static Vec multiply_add(Vec sum, const Word* left, Vec right) { return broadcast(*left) * right + sum; }
};

#if defined(__AVX512BF16__)
struct Bf16Words {
  using Word = std::uint32_t;
  static constexpr int pair = 2;
  static constexpr int row_group = 8;
  static constexpr int column_group = 2;
  static Vec multiply_add(Vec sum, const Word* left, Vec right) {
    Word word;
    __builtin_memcpy(&word, left, sizeof word);  // may lie in memory of bf16
    const WordVec spread = word - WordVec{};
    return reinterpret_cast<Vec>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sum), reinterpret_cast<__m512bh>(spread),
                                                  reinterpret_cast<__m512bh>(right)));
  }
};
template <class T> struct WordsOf { using type = Bf16Words; };

inline void store_words(std::uint32_t* to, HalfVec even, HalfVec odd) {
  const WordVec words = to_words(even) | to_words(odd) << 16;
  __builtin_memcpy(to, &words, sizeof words);
}
// Words whose halves are bf16 of `even` and `odd`.
inline void store_pairs(std::uint32_t* to, Vec even, Vec odd) {
  alignas(64) static constexpr std::uint16_t interleaved[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                                8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512bh halves = _mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(odd), reinterpret_cast<__m512>(even));
  const __m512i order = _mm512_load_si512(interleaved);
  const __m512i words = _mm512_maskz_permutexvar_epi16(0xffffffffu, order, reinterpret_cast<__m512i>(halves));
  __builtin_memcpy(to, &words, sizeof words);
}
// The same of `lanes` elements of two rows.
inline void store_pairs(std::uint32_t* to, const Bf16Bits* even, const Bf16Bits* odd) {
  HalfVec low, high;
  __builtin_memcpy(&low, even, sizeof low);
  __builtin_memcpy(&high, odd, sizeof high);
  store_words(to, low, high);
}
template <> struct WordsOf<float> { using type = FloatWords; };
#else
template <class T> struct WordsOf { using type = FloatWords; };  // bf16 is widened when it is packed
#endif

// Which part of a tile on the diagonal of the causal mask matters; rows or columns before it are queries, after it keys.
enum class Causal {
  full,         // not on the diagonal
  key_query,    // result [keys, queries]: only queries >= key are read later
  query_sum,    // result [queries, ...], summed over keys: only keys <= query
  key_sum,      // result [keys, ...], summed over queries: only queries >= key
};

template <class Word> struct Left {
  const Word* data = nullptr;
  std::int64_t row = 0;   // words from row to row
  std::int64_t step = 0;  // words from one word of the sum to the next
};

template <class Word> struct Right {
  const Word* data = nullptr;
  std::int64_t row = 0;  // words from row to row
};

template <class Word> inline Vec load_words(const Word* from) {
  Vec value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

// sum [row_group, columns vectors] stays in registers.
template <class Words, int columns, class Word = typename Words::Word>
inline __attribute__((always_inline)) void multiply_group(Left<Word> left, Right<Word> right, float* result,
                                                          std::int64_t result_row, int begin, int end, bool accumulate) {
  constexpr int row_group = Words::row_group;
  Vec sum[row_group][columns];
#pragma GCC unroll 8
  for (int m = 0; m < row_group; ++m) {
#pragma GCC unroll 4
    for (int n = 0; n < columns; ++n) sum[m][n] = accumulate ? load(result + m * result_row + n * lanes) : Vec{};
  }
  const Word* a = left.data + begin * left.step;
  const Word* b = right.data + begin * right.row;
  for (int k = begin; k < end; ++k, a += left.step, b += right.row) {
    Vec column[columns];
#pragma GCC unroll 4
    for (int n = 0; n < columns; ++n) column[n] = load_words(b + n * lanes);
#pragma GCC unroll 8
    for (int m = 0; m < row_group; ++m) {
#pragma GCC unroll 4
      for (int n = 0; n < columns; ++n) sum[m][n] = Words::multiply_add(sum[m][n], a + m * left.row, column[n]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < row_group; ++m) {
#pragma GCC unroll 4
    for (int n = 0; n < columns; ++n) store(result + m * result_row + n * lanes, sum[m][n]);
  }
}

// result [tile, columns] (+)= left [tile, words] right [words, columns]; columns is a multiple of lanes.
template <class Words, Causal causal, class Word = typename Words::Word>
void multiply(Left<Word> left, Right<Word> right, float* result, std::int64_t result_row, int words, int columns,
              bool accumulate) {
  constexpr int row_group = Words::row_group, column_group = Words::column_group;
  const auto rows_of_columns = [&]<int vectors>(int first) {
    for (int m = 0; m < tile; m += row_group) {
      if (causal == Causal::key_query && first + vectors * lanes <= m) break;
      const int begin = causal == Causal::key_sum ? m / Words::pair : 0;
      const int end = causal == Causal::query_sum ? (m + row_group) / Words::pair : words;
      multiply_group<Words, vectors>({left.data + m * left.row, left.row, left.step}, {right.data + first, right.row},
                                     result + m * result_row + first, result_row, begin, end, accumulate);
    }
  };
  int first = 0;
  for (; first + column_group * lanes <= columns; first += column_group * lanes) {
    rows_of_columns.template operator()<column_group>(first);
  }
  for (; first < columns; first += lanes) rows_of_columns.template operator()<1>(first);
}

// ---- packing: `rows` of `tile` rows exist, the others become zero

inline float widen(float value) { return value; }
inline float widen(Bf16Bits value) {
  const std::uint32_t word = static_cast<std::uint32_t>(value) << 16;
  float result;
  __builtin_memcpy(&result, &word, sizeof result);
  return result;
}

// Words of one row along head_dim, as the left operand of a product over it.
template <class Words, class T, class Word = typename Words::Word>
void copy_row(const T* from, Word* to, int head_dim) {
  if constexpr (sizeof(T) * Words::pair == sizeof(Word)) {
    __builtin_memcpy(to, from, static_cast<std::size_t>(head_dim) * sizeof(T));
  } else {
    for (int d = 0; d < head_dim; ++d) to[d] = widen(from[d]);
  }
}

// Rows with words along head_dim: in place when nothing has to change, else copied to `scratch`.
template <class Words, class T, class Word = typename Words::Word>
Left<Word> left_rows(const T* from, std::int64_t from_row, int rows, int head_dim, Word* scratch) {
  constexpr bool same = sizeof(T) * Words::pair == sizeof(Word);
  if (same && rows == tile) return {reinterpret_cast<const Word*>(from), from_row / Words::pair, 1};
  const int words = head_dim / Words::pair;
  for (int r = 0; r < rows; ++r) copy_row<Words>(from + r * from_row, scratch + r * words, head_dim);
  for (int i = rows * words; i < tile * words; ++i) scratch[i] = 0;
  return {scratch, words, 1};
}

// [words along head_dim][tile rows], from rows as left_rows gives them. Blocks of lanes x lanes turn in registers.
template <class Word> void transpose(Left<Word> from, int words, Word* to) {
  int w = 0;
  for (; w + lanes <= words; w += lanes) {
    for (int r = 0; r < tile; r += lanes) {
      Vec rows[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) rows[i] = load_words(from.data + (r + i) * from.row + w);
      transpose_block(rows);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) __builtin_memcpy(to + (w + i) * tile + r, &rows[i], sizeof(Vec));
    }
  }
  for (; w < words; ++w) {
    for (int r = 0; r < tile; ++r) __builtin_memcpy(to + w * tile + r, from.data + r * from.row + w, sizeof(Word));
  }
}

inline int padded(int head_dim) { return (head_dim + lanes - 1) / lanes * lanes; }

// Words along the rows, [tile / pair][head_dim padded], as the right operand of a product over the tile's rows: in place
// when nothing has to change, else packed to `scratch`.
template <class Words, class T, class Word = typename Words::Word>
Right<Word> right_rows(const T* from, std::int64_t from_row, int rows, int head_dim, Word* scratch) {
  const int columns = padded(head_dim);
  if constexpr (Words::pair == 1) {
    if (sizeof(T) == sizeof(Word) && rows == tile && columns == head_dim) {
      return {reinterpret_cast<const Word*>(from), from_row};
    }
    for (int r = 0; r < tile; ++r) {
      Word* to = scratch + r * columns;
      const int count = r < rows ? head_dim : 0;
      for (int d = 0; d < count; ++d) to[d] = widen(from[r * from_row + d]);
      for (int d = count; d < columns; ++d) to[d] = 0;
    }
  } else {
    for (int r = 0; r < tile; r += 2) {
      Word* to = scratch + r / 2 * columns;
      const int count = r < rows ? head_dim : 0;
      const T* even = from + r * from_row;
      if (r + 1 < rows) {
        const T* odd = even + from_row;
        int d = 0;
        for (; d + lanes <= count; d += lanes) store_pairs(to + d, even + d, odd + d);
        for (; d < count; ++d) to[d] = even[d] | static_cast<Word>(odd[d]) << 16;
      } else {
        for (int d = 0; d < count; ++d) to[d] = even[d];
      }
      for (int d = count; d < columns; ++d) to[d] = 0;
    }
  }
  return {scratch, columns};
}

}  // namespace
}  // namespace longwave::simd::LONGWAVE_ISA
