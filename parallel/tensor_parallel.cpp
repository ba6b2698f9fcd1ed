#include "parallel/tensor_parallel.h"

#include "core/base/error.h"

namespace longwave {
namespace {

void check_parts(const Tensor& full, const Tensor& local, int size) {
  LONGWAVE_CHECK(full.dtype == local.dtype && full.count() == local.count() * size, "{} {} elements are not {} parts of {} {}",
                 full.count(), name_of(full.dtype), size, local.count(), name_of(local.dtype));
}

}  // namespace

void MeshTensorGroup::all_reduce_sum(Tensor tensor) {
  if (size() > 1) shards_.all_reduce(tensor.data, tensor.count(), element_of(tensor.dtype), Reduction::sum);
}

void MeshTensorGroup::all_reduce_max(Tensor tensor) {
  if (size() > 1) shards_.all_reduce(tensor.data, tensor.count(), element_of(tensor.dtype), Reduction::max);
}

void MeshTensorGroup::all_gather(Tensor local, Tensor full) {
  check_parts(full, local, size());
  if (size() == 1 && local.data == full.data) return;
  shards_.all_gather(local.data, full.data, local.count(), element_of(local.dtype));
}

void MeshTensorGroup::reduce_scatter(Tensor full, Tensor local) {
  check_parts(full, local, size());
  if (size() == 1 && local.data == full.data) return;
  shards_.reduce_scatter(full.data, local.data, local.count(), element_of(local.dtype), Reduction::sum);
}

}  // namespace longwave
