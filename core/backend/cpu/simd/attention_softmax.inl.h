// From the products of one attention tile to its probabilities, and to the gradients of its logits. For the attention sources
// of this folder only.
#pragma once

#include "core/backend/cpu/simd/attention_tile.inl.h"
#include "core/backend/cpu/simd/math.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

// Of a probability that is kept as Words: in bf16 a relative error of 9e-5, a twentieth of its rounding, is as good as less.
template <class Words> inline Vec exp2_for(Vec x) {
#if defined(__AVX512F__)
  if constexpr (Words::pair == 2) {
    return exp2_by(x, [](Vec r) { return ((r * 7.70671740e-2f + 0.227644846f) * r + 0.695116818f) * r + 1.0f; });
  }
#endif
  return exp2_negative(x);
}

inline Vec lane_numbers() {
  Vec numbers;
  for (int i = 0; i < lanes; ++i) numbers[i] = static_cast<float>(i);
  return numbers;
}

inline constexpr float log2_e = 1.44269504088896341f;
inline constexpr float ln_2 = 0.693147180559945309f;

// Logits in units of ln 2, from products S^T [keys, queries]: scale s - slope (query - key).
struct LogitScale {
  float scale = 1;
  float slope = 0;
};

inline LogitScale logit_scale(const AttentionOperands& operands, std::int64_t head) {
  return {operands.scale * log2_e, operands.slopes != nullptr ? operands.slopes[head] * log2_e : 0.0f};
}

// ---- forward

// What is known of each query's softmax so far, in units of ln 2 (Milakov and Gimelshein, arXiv 1805.02867).
struct OnlineSoftmax {
  float maximum[tile];
  float sum[tile];      // of 2^(logit - maximum)
  float rescale[tile];  // 2^(maximum before this tile - maximum)
};

// Logits of one key for `lanes` queries; `distance` is query - key at key 0 of the tile.
template <bool alibi> inline Vec logits(const float* products, LogitScale scale, Vec distance, int key) {
  const Vec scaled = load(products) * scale.scale;
  if constexpr (alibi) return scaled - scale.slope * (distance - static_cast<float>(key));
  return scaled;
}

// Products S^T [keys, queries] become probabilities relative to the running maximum: fp32 in place, or pairs of keys in bf16
// [keys / 2, queries], as the left operand of P V. Of queries `first` to first + lanes; says whether some maximum changed.
// `general` is for ALiBi, and for a scale that is not positive.
template <class Words, bool diagonal, bool general>
bool softmax_lanes(float* products, typename Words::Word* probabilities, LogitScale scale, float key_distance, OnlineSoftmax& state,
                   int first) {
  const Vec query = lane_numbers() + static_cast<float>(first);
  const Vec distance = query + key_distance;
  const int keys = diagonal ? first + lanes : tile;  // the others are masked for all these queries
  const Vec before = load(state.maximum + first);
  const Vec lowest = broadcast(-3e38f);
  Vec parts[4] = {lowest, lowest, lowest, lowest};  // four chains, not one that waits for itself
  for (int key = 0; key < keys; key += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const float* const at = products + (key + i) * tile + first;
      Vec logit = general ? logits<general>(at, scale, distance, key + i) : load(at);  // else scaled once, below
      if constexpr (diagonal) logit = query >= static_cast<float>(key + i) ? logit : lowest;
      parts[i] = maximum(logit, parts[i]);
    }
  }
  const Vec most = maximum(maximum(parts[0], parts[1]), maximum(parts[2], parts[3]));
  const Vec after = maximum(general ? most : most * scale.scale, before);
  Vec sum{};
  const auto probability = [&](int key) {
    Vec p = exp2_for<Words>(logits<general>(products + key * tile + first, scale, distance, key) - after);
    if constexpr (diagonal) p = query >= static_cast<float>(key) ? p : Vec{};
    sum += p;
    return p;
  };
  for (int key = 0; key < keys; key += Words::pair) {
    if constexpr (Words::pair == 1) {
      store(probabilities + key * tile + first, probability(key));
    } else {
      const Vec even = probability(key), odd = probability(key + 1);
      store_pairs(probabilities + key / 2 * tile + first, even, odd);
    }
  }
  for (int key = keys; key < tile; key += Words::pair) {
    store(reinterpret_cast<float*>(probabilities + key / Words::pair * tile + first), Vec{});
  }
  const Vec rescale = exp2_negative(before - after);
  store(state.rescale + first, rescale);
  store(state.sum + first, load(state.sum + first) * rescale + sum);
  store(state.maximum + first, after);
  return differ(before, after);
}

template <class Words> using SoftmaxLanes = bool (*)(float* products, typename Words::Word* probabilities, LogitScale scale,
                                                     float key_distance, OnlineSoftmax& state, int first);
template <class Words> SoftmaxLanes<Words> softmax_of(bool diagonal, LogitScale scale) {
  const bool general = scale.slope != 0 || scale.scale <= 0;
  if (diagonal) return general ? softmax_lanes<Words, true, true> : softmax_lanes<Words, true, false>;
  return general ? softmax_lanes<Words, false, true> : softmax_lanes<Words, false, false>;
}

// A whole tile; says whether some maximum changed.
template <class Words, class Word = typename Words::Word>
bool softmax(bool diagonal, float* products, Word* probabilities, LogitScale scale, float key_distance, OnlineSoftmax& state) {
  const SoftmaxLanes<Words> lanes_of = softmax_of<Words>(diagonal, scale);
  bool moved = false;
  for (int first = 0; first < tile; first += lanes) {
    moved |= lanes_of(products, probabilities, scale, key_distance, state, first);
  }
  return moved;
}

// ---- backward

// A query's numbers for the tile loop.
struct QueryStatistics {
  float lse[tile];    // in units of ln 2
  float delta[tile];  // dout . out, which is the sum over keys of P dP
};

// P^T and dS^T = P^T (dP^T - delta), both [keys, queries], as the left operands of the three gradient products. In bf16:
// pairs of queries [keys, queries / 2] for dV and dK, and pairs of keys [keys / 2, queries] for dQ.
template <class Word> struct TileGradients {
  Word* probability;
  Word* logit;
  Word* logit_by_key_pairs;  // fp32: the same memory as `logit`
};

template <class T> float dot(const T* a, const T* b, int count) {
  Vec sum_of{};
  int d = 0;
  for (; d + lanes <= count; d += lanes) sum_of += load(a + d) * load(b + d);
  if (d < count) sum_of += load_first(a + d, count - d) * load_first(b + d, count - d);
  return sum(sum_of);
}

template <class Words, bool diagonal, bool alibi>
void tile_gradients_of(const float* products, const float* value_products, LogitScale scale, float key_distance,
                    const QueryStatistics& statistics, TileGradients<typename Words::Word> to) {
  for (int first = 0; first < tile; first += lanes) {
    const Vec query = lane_numbers() + static_cast<float>(first);
    const Vec lse = load(statistics.lse + first) + (alibi ? scale.slope * (query + key_distance) : Vec{});
    const Vec delta = load(statistics.delta + first);
    const auto probability = [&](int key) {
      Vec logit = load(products + key * tile + first) * scale.scale - lse;
      if constexpr (alibi) logit += scale.slope * static_cast<float>(key);
      const Vec p = exp2_for<Words>(logit);
      if constexpr (diagonal) return query >= static_cast<float>(key) ? p : Vec{};
      return p;
    };
    const auto gradient = [&](int key, Vec p) {
      const Vec ds = p * (load(value_products + key * tile + first) - delta);
      if constexpr (diagonal) return query >= static_cast<float>(key) ? ds : Vec{};
      return ds;
    };
    const int keys = diagonal ? first + lanes : tile;  // the others are masked for all these queries
    for (int key = 0; key < keys; key += Words::pair) {
      if constexpr (Words::pair == 1) {
        const Vec p = probability(key);
        store(to.logit + key * tile + first, gradient(key, p));
        store(to.probability + key * tile + first, p);
      } else {
        const Vec even = probability(key), odd = probability(key + 1);
        Bf16Bits* p_rows = reinterpret_cast<Bf16Bits*>(to.probability) + key * tile + first;
        store(p_rows, even);
        store(p_rows + tile, odd);
        const Vec even_gradient = gradient(key, even), odd_gradient = gradient(key + 1, odd);
        Bf16Bits* ds_rows = reinterpret_cast<Bf16Bits*>(to.logit) + key * tile + first;
        store(ds_rows, even_gradient);
        store(ds_rows + tile, odd_gradient);
        store_pairs(to.logit_by_key_pairs + key / 2 * tile + first, even_gradient, odd_gradient);
      }
    }
    for (int key = keys; key < tile; ++key) {
      if constexpr (Words::pair == 1) {
        store(to.logit + key * tile + first, Vec{});
        store(to.probability + key * tile + first, Vec{});
      } else {
        store(reinterpret_cast<Bf16Bits*>(to.probability) + key * tile + first, Vec{});
        store(reinterpret_cast<Bf16Bits*>(to.logit) + key * tile + first, Vec{});
        if (key % 2 == 0) store(reinterpret_cast<float*>(to.logit_by_key_pairs + key / 2 * tile + first), Vec{});
      }
    }
  }
}

template <class Words, bool diagonal, class Word = typename Words::Word>
void tile_gradients(const float* products, const float* value_products, LogitScale scale, float key_distance,
                    const QueryStatistics& statistics, TileGradients<Word> to) {
  const auto gradients = scale.slope != 0 ? tile_gradients_of<Words, diagonal, true> : tile_gradients_of<Words, diagonal, false>;
  gradients(products, value_products, scale, key_distance, statistics, to);
}

}  // namespace
}  // namespace longwave::simd::LONGWAVE_ISA
