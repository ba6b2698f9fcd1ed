#include "tests/unit/attention/attention_reference.h"

#include <algorithm>
#include <cmath>

namespace longwave::testing {
namespace {

double dot(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void add(double factor, const double* from, double* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

}  // namespace

AttentionReference attention_reference(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                                       const std::vector<double>& dout, AttentionShape shape, double scale,
                                       const std::vector<float>& slopes) {
  const auto [batch, length, heads, kv_heads, head_dim] = shape;
  AttentionReference result;
  result.out.assign(q.size(), 0);
  result.lse.assign(static_cast<std::size_t>(batch * heads * length), 0);
  result.dq.assign(q.size(), 0);
  result.dk.assign(k.size(), 0);
  result.dv.assign(v.size(), 0);
  std::vector<double> p(static_cast<std::size_t>(length));
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const double slope = slopes.empty() ? 0 : static_cast<double>(slopes[static_cast<std::size_t>(h)]);
      const std::int64_t first_key = (b * kv_heads + h / (heads / kv_heads)) * length;
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t query = ((b * heads + h) * length + i) * head_dim;
        const std::int64_t token = ((b * length + i) * heads + h) * head_dim;
        double maximum = -INFINITY;
        for (std::int64_t j = 0; j <= i; ++j) {
          p[static_cast<std::size_t>(j)] = scale * dot(&q[static_cast<std::size_t>(query)],
                                                       &k[static_cast<std::size_t>((first_key + j) * head_dim)], head_dim) -
                                           slope * static_cast<double>(i - j);
          maximum = std::max(maximum, p[static_cast<std::size_t>(j)]);
        }
        double sum = 0;
        for (std::int64_t j = 0; j <= i; ++j) sum += std::exp(p[static_cast<std::size_t>(j)] - maximum);
        const double lse = maximum + std::log(sum);
        result.lse[static_cast<std::size_t>((b * heads + h) * length + i)] = lse;
        double* const out = &result.out[static_cast<std::size_t>(token)];
        for (std::int64_t j = 0; j <= i; ++j) {
          double& probability = p[static_cast<std::size_t>(j)];
          probability = std::exp(probability - lse);
          add(probability, &v[static_cast<std::size_t>((first_key + j) * head_dim)], out, head_dim);
        }
        if (dout.empty()) continue;
        const double* const gradient = &dout[static_cast<std::size_t>(token)];
        const double delta = dot(gradient, out, head_dim);
        for (std::int64_t j = 0; j <= i; ++j) {
          const auto key = static_cast<std::size_t>((first_key + j) * head_dim);
          const double probability = p[static_cast<std::size_t>(j)];
          const double dlogit = probability * (dot(gradient, &v[key], head_dim) - delta);
          add(scale * dlogit, &k[key], &result.dq[static_cast<std::size_t>(query)], head_dim);
          add(scale * dlogit, &q[static_cast<std::size_t>(query)], &result.dk[key], head_dim);
          add(probability, gradient, &result.dv[key], head_dim);
        }
      }
    }
  }
  return result;
}

}  // namespace longwave::testing
