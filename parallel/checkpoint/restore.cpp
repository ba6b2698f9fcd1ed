#include "parallel/checkpoint/restore.h"

#include <omp.h>

#include <algorithm>

#include "parallel/agreement.h"

namespace longwave {
namespace {

constexpr std::size_t band_bytes = std::size_t{4} << 20;  // stays in cache between reading and copying

// Rows of a stored tensor, and the elements they go to.
struct Band {
  const StoredTensor* tensor = nullptr;
  Rectangle part;
  Tensor to;
};

// Fills a checkpoint's tensors into the memory of the backend: collected first, then read by all threads, straight to its place
// where that is host memory.
class Loader {
 public:
  Loader(const CheckpointReader& checkpoint, Backend& backend) : checkpoint_(checkpoint), backend_(backend) {}

  // Elements from `begin` on of this shard's part of the tensor, as many as `to` has; padding is zero.
  void add(const std::string& name, const Parameter& parameter, std::int64_t begin, Tensor to) {
    const StoredTensor& tensor = checkpoint_.require(name, to.dtype, extents(parameter.global_shape));
    std::int64_t covered = 0;
    for (const RunPiece& piece : pieces_of_run(parameter, begin, to.count())) {
      add_bands(tensor, piece, to.view({to.count()}));
      covered += piece.rectangle.count();
    }
    if (covered < to.count()) backend_.zero(to);
  }

  void load_to_host() const {
    backend_.synchronize();
    read_bands(0, bands_.size(), [&](std::size_t index) { return bands_[index].to.data; });
  }

  // One thread copies: a device's calls belong to the thread that chose it.
  void load_to_device() const {
    const auto at_once = static_cast<std::size_t>(omp_get_max_threads());
    std::vector<std::vector<std::byte>> buffers(at_once);
    for (std::size_t first = 0; first < bands_.size(); first += at_once) {
      const std::size_t end = std::min(first + at_once, bands_.size());
      read_bands(first, end, [&](std::size_t index) {
        std::vector<std::byte>& buffer = buffers[index - first];
        buffer.resize(std::max(buffer.size(), bands_[index].to.bytes()));
        return buffer.data();
      });
      for (std::size_t index = first; index < end; ++index) {
        backend_.copy_from_host(bands_[index].to, buffers[index - first].data());
      }
      backend_.synchronize();
    }
  }

 private:
  // By all threads, each band to where `place` says.
  template <class Place>
  void read_bands(std::size_t first, std::size_t end, Place place) const {
    std::vector<Failure> failures(end - first);
#pragma omp parallel for schedule(dynamic)
    for (std::size_t index = first; index < end; ++index) {
      failures[index - first] = capture([&] { checkpoint_.read(*bands_[index].tensor, bands_[index].part, place(index)); });
    }
    for (const Failure& failure : failures) {
      if (failure) throw Error(*failure);
    }
  }

  void add_bands(const StoredTensor& tensor, const RunPiece& piece, Tensor to) {
    const Rectangle& part = piece.rectangle;
    const auto row_bytes = static_cast<std::size_t>(part.columns()) * size_of(tensor.dtype);
    const auto rows_at_once = static_cast<std::int64_t>(std::max<std::size_t>(band_bytes / row_bytes, 1));
    std::int64_t at = piece.offset;
    for (std::int64_t row = part.row_begin; row < part.row_end; row += rows_at_once) {
      const Rectangle rows{row, std::min(row + rows_at_once, part.row_end), part.column_begin, part.column_end};
      bands_.push_back({&tensor, rows, to.rows(at, at + rows.count())});
      at += rows.count();
    }
  }

  const CheckpointReader& checkpoint_;
  Backend& backend_;
  std::vector<Band> bands_;
};

}  // namespace

void restore(const CheckpointReader& checkpoint, Transformer& model, Backend& backend, DataParallel& optimizer,
             Communicator& control, bool host_memory) {
  together(control, [&] {
    const ParameterStore& store = model.parameters();
    Loader loader(checkpoint, backend);
    for (const OwnedSlice& slice : optimizer.owned_slices()) {
      const Parameter& parameter = store[slice.parameter];
      loader.add(parameter.name, parameter, slice.begin, slice.master);
      loader.add(moment_name(1, parameter.name), parameter, slice.begin, slice.moment1);
      loader.add(moment_name(2, parameter.name), parameter, slice.begin, slice.moment2);
    }
    for (std::size_t index = 0; index < store.parameters().size(); ++index) {
      if (store[index].frozen) loader.add(store[index].name, store[index], 0, store.value(index));
    }
    host_memory ? loader.load_to_host() : loader.load_to_device();
  });
  optimizer.values_from_masters();
  model.parameters_loaded();
}

}  // namespace longwave
