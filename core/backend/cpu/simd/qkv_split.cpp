#include "core/backend/cpu/qkv_split_kernels.h"
#include "core/backend/cpu/simd/vector.inl.h"

namespace longwave::simd::LONGWAVE_ISA {
namespace {

inline constexpr int max_half = static_cast<int>(qkv_max_head_dim / 2);

// A head in fp32 as its two halves: pair j is low[j], high[j]. What pads to whole vectors is zero.
struct Head {
  alignas(64) float low[max_half];
  alignas(64) float high[max_half];
};

template <class T> inline Vec load_part(const T* from, int count) {
  return count >= lanes ? load(from) : load_first(from, count);
}
template <class T> inline void store_part(T* to, Vec value, int count) {
  if (count >= lanes) {
    store(to, value);
  } else {
    store_first(to, value, count);
  }
}

template <class T> void read(const T* from, int half, Head& head) {
  for (int j = 0; j < half; j += lanes) {
    store(head.low + j, load_part(from + j, half - j));
    store(head.high + j, load_part(from + half + j, half - j));
  }
}

// Past the caches: to whole lines alone, of bf16, where operands.stream says so.
#if defined(__AVX512BF16__)
inline void stream_line(Bf16Bits* to, __m512i line) { _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line); }
inline void stream_half(const float* from, int half, Bf16Bits* to) {
  for (int j = 0; j < half; j += 2 * lanes) {
    const __m512 low = reinterpret_cast<__m512>(load(from + j)), high = reinterpret_cast<__m512>(load(from + j + lanes));
    stream_line(to + j, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }
}
inline bool write_past_caches(const Head& head, int half, Bf16Bits* to) {
  stream_half(head.low, half, to);
  stream_half(head.high, half, to + half);
  return true;
}
inline bool copy_past_caches(const Bf16Bits* from, std::int64_t head_dim, Bf16Bits* to) {
  for (std::int64_t d = 0; d < head_dim; d += 2 * lanes) stream_line(to + d, _mm512_loadu_si512(from + d));
  return true;
}
inline void finish_streaming() { _mm_sfence(); }
#else
inline bool write_past_caches(const Head&, int, Bf16Bits*) { return false; }
inline bool copy_past_caches(const Bf16Bits*, std::int64_t, Bf16Bits*) { return false; }
inline void finish_streaming() {}
#endif
inline bool write_past_caches(const Head&, int, float*) { return false; }
inline bool copy_past_caches(const float*, std::int64_t, float*) { return false; }

template <class T> void write(const Head& head, int half, T* to, bool stream) {
  if (stream && write_past_caches(head, half, to)) return;
  for (int j = 0; j < half; j += lanes) {
    store_part(to + j, load(head.low + j), half - j);
    store_part(to + half + j, load(head.high + j), half - j);
  }
}

// C and S of one position, all pairs.
struct Turn {
  alignas(64) float cosine[max_half];
  alignas(64) float sine[max_half];
};

// Entries j .. j + lanes of a table's row of `columns`, the constant pairs behind them.
inline Vec table_part(const float* row, int j, int columns, float tail) {
  if (j >= columns) return broadcast(tail);
  return columns - j >= lanes ? load(row + j) : load_first(row + j, columns - j, tail);
}

// Whole vectors, for what is stored in parts is slow to load as a vector.
void read_turn(const QkvOperands& operands, std::int64_t kv_head, std::int64_t position, Turn& turn) {
  const int half = static_cast<int>(operands.head_dim / 2);
  const int columns = static_cast<int>(operands.columns);
  const std::int64_t table_head = operands.table_heads == 1 ? 0 : kv_head;
  const std::int64_t row = (table_head * operands.positions + position) * operands.columns;
  for (int j = 0; j < half; j += lanes) {
    store(turn.cosine + j, table_part(operands.cosine + row, j, columns, operands.tail_cosine));
    store(turn.sine + j, table_part(operands.sine + row, j, columns, operands.tail_sine));
  }
}

void rotate(Head& x, const Turn& turn, int half) {
  for (int j = 0; j < half; j += lanes) {
    const Vec low = load(x.low + j), high = load(x.high + j), c = load(turn.cosine + j), s = load(turn.sine + j);
    store(x.low + j, low * c - high * s);
    store(x.high + j, high * c + low * s);
  }
}

// Gradients before the rotation from those after it.
void rotate_back(Head& g, const Turn& turn, int half) {
  for (int j = 0; j < half; j += lanes) {
    const Vec low = load(g.low + j), high = load(g.high + j), c = load(turn.cosine + j), s = load(turn.sine + j);
    store(g.low + j, low * c + high * s);
    store(g.high + j, high * c - low * s);
  }
}

void add_turn_gradient(const Head& x, const Head& g, int half, Turn& sums) {
  for (int j = 0; j < half; j += lanes) {
    const Vec x_low = load(x.low + j), x_high = load(x.high + j), g_low = load(g.low + j), g_high = load(g.high + j);
    store(sums.cosine + j, load(sums.cosine + j) + (g_low * x_low + g_high * x_high));
    store(sums.sine + j, load(sums.sine + j) + (g_high * x_low - g_low * x_high));
  }
}

float dot(const Head& a, const Head& b, int half) {
  Vec total{};
  for (int j = 0; j < half; j += lanes) {
    total += load(a.low + j) * load(b.low + j);
    total += load(a.high + j) * load(b.high + j);
  }
  return sum(total);
}

// y = factor * x * gain; gain padded like a head.
void scale_by(const Head& x, float factor, const Head& gain, int half, Head& y) {
  for (int j = 0; j < half; j += lanes) {
    store(y.low + j, load(x.low + j) * factor * load(gain.low + j));
    store(y.high + j, load(x.high + j) * factor * load(gain.high + j));
  }
}

// dx of x * rstd * gain from dy, in place, where n = x * rstd: rstd (dy gain - n mean(dy gain n)); dgain += dy n.
void norm_back(const Head& normalised, float rstd, const Head& gain, int half, Head& gradient, float* dgain) {
  for (int j = 0; j < half; j += lanes) {
    const int count = half - j;
    store_part(dgain + j, load_part(dgain + j, count) + load(gradient.low + j) * load(normalised.low + j), count);
    store_part(dgain + half + j, load_part(dgain + half + j, count) + load(gradient.high + j) * load(normalised.high + j),
               count);
  }
  scale_by(gradient, 1, gain, half, gradient);
  const float mean = dot(gradient, normalised, half) / static_cast<float>(2 * half);
  for (int j = 0; j < half; j += lanes) {
    store(gradient.low + j, (load(gradient.low + j) - load(normalised.low + j) * mean) * rstd);
    store(gradient.high + j, (load(gradient.high + j) - load(normalised.high + j) * mean) * rstd);
  }
}

void scale_all(Head& x, float factor, int half) {
  for (int j = 0; j < half; j += lanes) {
    store(x.low + j, load(x.low + j) * factor);
    store(x.high + j, load(x.high + j) * factor);
  }
}

template <class T> void copy_head(const T* from, std::int64_t head_dim, T* to, bool stream) {
  if (stream && copy_past_caches(from, head_dim, to)) return;
  std::int64_t d = 0;
  for (; d + lanes <= head_dim; d += lanes) __builtin_memcpy(to + d, from + d, sizeof(T) * lanes);
  for (; d < head_dim; ++d) to[d] = from[d];
}

// Where one token's heads lie: `row` in qkv, `query` and `key` in q, k or v, `rstd` in the statistics.
struct Places {
  const QkvOperands& operands;
  std::int64_t sequence, position;

  std::int64_t row() const {
    return (sequence * operands.length + position) * (operands.heads + 2 * operands.kv_heads) * operands.head_dim;
  }
  std::int64_t query(std::int64_t head) const { return head_row(head, operands.heads); }
  std::int64_t key(std::int64_t head) const { return head_row(head, operands.kv_heads); }
  std::int64_t head_row(std::int64_t head, std::int64_t heads) const {
    return ((sequence * heads + head) * operands.length + position) * operands.head_dim;
  }
  // Heads H .. H + G are the keys'.
  float* rstd(std::int64_t head) const {
    return operands.rstd + (sequence * (operands.heads + operands.kv_heads) + head) * operands.length + position;
  }
};

// The gains of q and k in fp32; nothing without norm.
struct Gains {
  Head query, key;

  explicit Gains(const QkvOperands& operands) {
    if (operands.query_gain == nullptr) return;
    read(operands.query_gain, static_cast<int>(operands.head_dim / 2), query);
    read(operands.key_gain, static_cast<int>(operands.head_dim / 2), key);
  }
};

// One KV head with its query heads at one position.
template <class T> void forward_group(const QkvOperands& operands, const Places& at, const Gains& gains, std::int64_t g) {
  const int half = static_cast<int>(operands.head_dim / 2);
  const std::int64_t head_dim = operands.head_dim, group = operands.heads / operands.kv_heads;
  const T* const row = static_cast<const T*>(operands.qkv) + at.row();
  const bool norm = operands.query_gain != nullptr;
  Head x;
  Turn turn;
  const auto transform = [&](std::int64_t head, const Head& gain, T* to) {
    read(row + head * head_dim, half, x);
    if (norm) {
      const float mean = dot(x, x, half) / static_cast<float>(head_dim);
      const float rstd = 1.0f / __builtin_sqrtf(mean + operands.epsilon);
      *at.rstd(head) = rstd;
      scale_by(x, rstd, gain, half, x);
    }
    if (operands.rotates) rotate(x, turn, half);
    write(x, half, to, operands.stream);
  };
  if (operands.rotates) read_turn(operands, g, at.position, turn);
  for (std::int64_t h = g * group; h < (g + 1) * group; ++h) {
    transform(h, gains.query, static_cast<T*>(operands.q) + at.query(h));
  }
  transform(operands.heads + g, gains.key, static_cast<T*>(operands.k) + at.key(g));
  copy_head(row + (operands.heads + operands.kv_heads + g) * head_dim, head_dim, static_cast<T*>(operands.v) + at.key(g),
            operands.stream);
}

template <class T>
void backward_group(const QkvOperands& operands, const Places& at, const Gains& gains, std::int64_t g, QkvGainSums sums) {
  const int half = static_cast<int>(operands.head_dim / 2);
  const std::int64_t head_dim = operands.head_dim, group = operands.heads / operands.kv_heads;
  const T* const row = static_cast<const T*>(operands.qkv);
  T* const drow = static_cast<T*>(operands.dqkv) + at.row();
  const bool norm = operands.query_gain != nullptr;
  const bool learns = operands.dcosine != nullptr;
  Head x, g_head;
  Turn turn, dturn;
  const auto transform = [&](std::int64_t head, const Head& gain, const T* from, float* dgain) {
    read(from, half, g_head);
    const float rstd = norm ? *at.rstd(head) : 1;
    if (norm || learns) {
      read(row + at.row() + head * head_dim, half, x);
      if (norm) scale_all(x, rstd, half);
    }
    if (learns) {
      Head rotated = x;
      if (norm) scale_by(x, 1, gain, half, rotated);
      add_turn_gradient(rotated, g_head, half, dturn);
    }
    if (operands.rotates) rotate_back(g_head, turn, half);
    if (norm) norm_back(x, rstd, gain, half, g_head, dgain);
    write(g_head, half, drow + head * head_dim, operands.stream);
  };
  if (operands.rotates) read_turn(operands, g, at.position, turn);
  if (learns) __builtin_memset(&dturn, 0, sizeof dturn);
  for (std::int64_t h = g * group; h < (g + 1) * group; ++h) {
    transform(h, gains.query, static_cast<const T*>(operands.q) + at.query(h), sums.query);
  }
  transform(operands.heads + g, gains.key, static_cast<const T*>(operands.k) + at.key(g), sums.key);
  copy_head(static_cast<const T*>(operands.v) + at.key(g), head_dim, drow + (operands.heads + operands.kv_heads + g) * head_dim,
            operands.stream);
  if (learns) {
    const std::int64_t table_head = operands.table_heads == 1 ? 0 : g;
    const std::int64_t to = (table_head * operands.positions + at.position) * operands.columns;
    for (std::int64_t j = 0; j < operands.columns; ++j) {
      operands.dcosine[to + j] += dturn.cosine[j];
      operands.dsine[to + j] += dturn.sine[j];
    }
  }
}

// Both read memory in the order in which it lies, which hides its latency: rows of qkv here, rows of one head below. The
// writes, in whole cache lines, may jump.
template <class T> void forward_span(const QkvOperands& operands, QkvSpan span) {
  const Gains gains(operands);
  for (std::int64_t t = span.begin; t < span.end; ++t) {
    for (std::int64_t g = 0; g < operands.kv_heads; ++g) forward_group<T>(operands, {operands, span.sequence, t}, gains, g);
  }
  if (operands.stream) finish_streaming();
}

template <class T> void backward_span(const QkvOperands& operands, QkvSpan span, QkvGainSums sums) {
  const Gains gains(operands);
  for (std::int64_t g = 0; g < operands.kv_heads; ++g) {
    for (std::int64_t t = span.begin; t < span.end; ++t) backward_group<T>(operands, {operands, span.sequence, t}, gains, g, sums);
  }
  if (operands.stream) finish_streaming();
}

}  // namespace

constinit const QkvSplitKernels qkv_split_kernels = {
    .forward_f32 = forward_span<float>,
    .forward_bf16 = forward_span<Bf16Bits>,
    .backward_f32 = backward_span<float>,
    .backward_bf16 = backward_span<Bf16Bits>,
};

}  // namespace longwave::simd::LONGWAVE_ISA
