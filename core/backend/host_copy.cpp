#include "core/backend/host_copy.h"

#include <algorithm>

namespace longwave {

void upload(Backend& backend, const float* from, Tensor to) {
  if (to.dtype == DType::f32) {
    backend.copy_from_host(to, from);
    return;
  }
  LONGWAVE_CHECK(to.dtype == DType::bf16);
  std::vector<bf16> rounded(static_cast<std::size_t>(to.count()));
  std::transform(from, from + to.count(), rounded.begin(), [](float x) { return bf16(x); });
  backend.copy_from_host(to, rounded.data());
}

std::vector<float> download(Backend& backend, Tensor from) {
  std::vector<float> values(static_cast<std::size_t>(from.count()));
  if (from.dtype == DType::f32) {
    backend.copy_to_host(values.data(), from);
    return values;
  }
  LONGWAVE_CHECK(from.dtype == DType::bf16);
  std::vector<bf16> raw(values.size());
  backend.copy_to_host(raw.data(), from);
  std::transform(raw.begin(), raw.end(), values.begin(), [](bf16 x) { return static_cast<float>(x); });
  return values;
}

}  // namespace longwave
