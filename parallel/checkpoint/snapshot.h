// What one rank contributes to a checkpoint, and the host memory in which a step's values stay while they are written.
//
// Every element of every logical tensor is contributed by one rank: trained parameters and their moments by the rank that
// owns the slice in the optimizer, or, where all data ranks own everything, in equal parts by each; frozen ones by the first
// data rank, and where shards of the tensor axis hold equal values, by the first of them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/backend/host_memory.h"
#include "core/model/parameter_store.h"
#include "parallel/checkpoint/manifest.h"
#include "parallel/data_parallel.h"
#include "parallel/mesh.h"

namespace longwave {

struct SnapshotSlice {
  std::size_t tensor = 0;           // index into Snapshot::tensors()
  Rectangle rectangle;
  std::size_t offset = 0;           // of its row-major [rows, columns] in the snapshot's memory
  std::size_t bytes = 0;
};

class Snapshot {
 public:
  // Takes its memory. `optimizer`, store and backend outlive it.
  Snapshot(const ParameterStore& store, Backend& backend, const DataParallel& optimizer, const Mesh& mesh);

  // Copies the values as they are now. The copy in the step: everything else can happen behind it.
  void capture();

  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // all logical tensors, without slices; on every rank
  const std::vector<SnapshotSlice>& slices() const { return slices_; }   // of this rank
  const std::byte* data(const SnapshotSlice& slice) const { return memory_.as<std::byte>() + slice.offset; }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Copy {
    Tensor from;
    std::size_t offset = 0;  // bytes into the memory
  };

  void add_run(std::size_t tensor, const Parameter& parameter, std::int64_t begin, const std::vector<Tensor>& parts);

  Backend& backend_;
  std::vector<StoredTensor> tensors_;
  std::vector<SnapshotSlice> slices_;
  std::vector<Copy> copies_;
  std::size_t bytes_ = 0;
  HostMemory memory_;
};

}  // namespace longwave
