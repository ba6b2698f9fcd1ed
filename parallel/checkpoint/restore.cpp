#include "parallel/checkpoint/restore.h"

#include "core/backend/host_copy.h"
#include "parallel/agreement.h"

namespace longwave {
namespace {

// Elements [begin, begin + count) of this shard's part of the tensor; padding is zero.
template <class T>
std::vector<T> read_run(const CheckpointReader& checkpoint, const std::string& name, const Parameter& parameter,
                        std::int64_t begin, std::int64_t count) {
  const StoredTensor& tensor = checkpoint.require(name, dtype_of<T>, extents(parameter.global_shape));
  std::vector<T> values(static_cast<std::size_t>(count));
  for (const RunPiece& piece : pieces_of_run(parameter, begin, count)) {
    checkpoint.read(tensor, piece.rectangle, values.data() + piece.offset);
  }
  return values;
}

void restore_frozen(const CheckpointReader& checkpoint, ParameterStore& store, Backend& backend, std::size_t index) {
  const Parameter& parameter = store[index];
  if (parameter.dtype == DType::f64) {
    backend.copy_from_host(store.value(index), read_run<double>(checkpoint, parameter.name, parameter, 0, parameter.count()).data());
  } else {
    upload(backend, read_run<float>(checkpoint, parameter.name, parameter, 0, parameter.count()).data(), store.value(index));
  }
}

void restore_slice(const CheckpointReader& checkpoint, const Parameter& parameter, const OwnedSlice& slice, Backend& backend) {
  const auto load = [&](const std::string& name, Tensor to) {
    backend.copy_from_host(to, read_run<float>(checkpoint, name, parameter, slice.begin, to.count()).data());
  };
  load(parameter.name, slice.master);
  load(moment_name(1, parameter.name), slice.moment1);
  load(moment_name(2, parameter.name), slice.moment2);
}

}  // namespace

void restore(const CheckpointReader& checkpoint, Transformer& model, Backend& backend, DataParallel& optimizer, Communicator& control) {
  together(control, [&] {
    ParameterStore& store = model.parameters();
    for (const OwnedSlice& slice : optimizer.owned_slices()) restore_slice(checkpoint, store[slice.parameter], slice, backend);
    for (std::size_t index = 0; index < store.parameters().size(); ++index) {
      if (store[index].frozen) restore_frozen(checkpoint, store, backend, index);
    }
    backend.synchronize();
  });
  optimizer.values_from_masters();
  model.parameters_loaded();
}

}  // namespace longwave
