#include "tests/simt/qkv_reference.h"

namespace longwave {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// One head of one token, from its row of qkv to q, k or v and back.
class Head {
 public:
  Head(const QkvInputs& in, QkvResults& out, std::int64_t sequence, std::int64_t position, std::int64_t head)
      : in_(in), out_(out), sequence_(sequence), position_(position), head_(head), dim_(in.shape.head_dim) {}

  void run() {
    const auto [batch, length, heads, kv_heads, head_dim] = in_.shape;
    const std::int64_t from = ((sequence_ * length + position_) * (heads + 2 * kv_heads) + head_) * dim_;
    const std::int64_t own_heads = is_query() ? heads : kv_heads, own = is_query() ? head_ : (head_ - heads) % kv_heads;
    const std::int64_t to = ((sequence_ * own_heads + own) * length + position_) * dim_;
    Values x(in_.qkv.begin() + from, in_.qkv.begin() + from + dim_);
    const Values& incoming = is_query() ? in_.dq : is_value() ? in_.dv : in_.dk;
    const Values dy(incoming.begin() + to, incoming.begin() + to + dim_);

    Values z = x;  // normalised
    double rstd = 1;
    if (has_norm()) {
      double squares = 0;
      for (double element : x) squares += element * element;
      rstd = 1 / std::sqrt(squares / static_cast<double>(dim_) + in_.epsilon);
      out_.rstd[at((sequence_ * (heads + kv_heads) + head_) * length + position_)] = rstd;
      for (double& element : z) element *= rstd;
    }
    Values scaled = z;  // what is rotated
    if (has_norm()) {
      for (std::int64_t d = 0; d < dim_; ++d) scaled[at(d)] *= gain()[at(d)];
    }
    Values& result = is_query() ? out_.q : is_value() ? out_.v : out_.k;
    const Values dscaled = rotate(scaled, dy, result, to);

    if (!has_norm()) {
      std::copy(dscaled.begin(), dscaled.end(), out_.dqkv.begin() + from);
      return;
    }
    // dx = rstd (h - z mean(h z)) with h = gain dscaled
    Values& dgain = is_query() ? out_.dquery_gain : out_.dkey_gain;
    double mean = 0;
    for (std::int64_t d = 0; d < dim_; ++d) {
      dgain[at(d)] += dscaled[at(d)] * z[at(d)];
      mean += gain()[at(d)] * dscaled[at(d)] * z[at(d)] / static_cast<double>(dim_);
    }
    for (std::int64_t d = 0; d < dim_; ++d) {
      out_.dqkv[at(from + d)] = rstd * (gain()[at(d)] * dscaled[at(d)] - z[at(d)] * mean);
    }
  }

 private:
  bool is_query() const { return head_ < in_.shape.heads; }
  bool is_value() const { return head_ >= in_.shape.heads + in_.shape.kv_heads; }
  bool has_norm() const { return !in_.query_gain.empty() && !is_value(); }
  const Values& gain() const { return is_query() ? in_.query_gain : in_.key_gain; }

  // Writes the rotated x to result[to ...]; the gradient with respect to x, and the table's.
  Values rotate(const Values& x, const Values& dy, Values& result, std::int64_t to) {
    const std::int64_t half = dim_ / 2;
    const std::int64_t kv_head = is_query() ? head_ / (in_.shape.heads / in_.shape.kv_heads) : head_ - in_.shape.heads;
    Values dx(x.size());
    for (std::int64_t j = 0; j < half; ++j) {
      const bool rotates = in_.table_heads > 0 && !is_value(), tabulated = rotates && j < in_.columns;
      const std::int64_t table_head = in_.table_heads == 1 ? 0 : kv_head;
      const std::int64_t entry = (table_head * in_.positions + position_) * in_.columns + j;
      const double c = tabulated ? in_.cosine[at(entry)] : rotates ? in_.tail_cosine : 1;
      const double s = tabulated ? in_.sine[at(entry)] : rotates ? in_.tail_sine : 0;
      const double low = x[at(j)], high = x[at(j + half)], dlow = dy[at(j)], dhigh = dy[at(j + half)];
      result[at(to + j)] = low * c - high * s;
      result[at(to + j + half)] = high * c + low * s;
      dx[at(j)] = dlow * c + dhigh * s;
      dx[at(j + half)] = dhigh * c - dlow * s;
      if (!tabulated) continue;
      out_.dcosine[at(entry)] += dlow * low + dhigh * high;
      out_.dsine[at(entry)] += dhigh * low - dlow * high;
    }
    return dx;
  }

  const QkvInputs& in_;
  QkvResults& out_;
  std::int64_t sequence_, position_, head_, dim_;
};

}  // namespace

QkvResults qkv_reference(const QkvInputs& inputs) {
  const auto [batch, length, heads, kv_heads, head_dim] = inputs.shape;
  QkvResults results;
  results.q.resize(at(batch * heads * length * head_dim));
  results.k.resize(at(batch * kv_heads * length * head_dim));
  results.v.resize(results.k.size());
  results.rstd.resize(at(batch * (heads + kv_heads) * length));
  results.dqkv.resize(inputs.qkv.size());
  results.dquery_gain.resize(inputs.query_gain.size());
  results.dkey_gain.resize(inputs.key_gain.size());
  results.dcosine.resize(inputs.cosine.size());
  results.dsine.resize(inputs.sine.size());
  for (std::int64_t sequence = 0; sequence < batch; ++sequence) {
    for (std::int64_t position = 0; position < length; ++position) {
      for (std::int64_t head = 0; head < heads + 2 * kv_heads; ++head) Head(inputs, results, sequence, position, head).run();
    }
  }
  return results;
}

}  // namespace longwave
