#include "parallel/checkpoint/reader.h"

#include <omp.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/safetensors_header.h"
#include "parallel/checkpoint/rank_file.h"

namespace longwave {
namespace {

constexpr std::size_t max_open_files = 256;  // well below the usual limit of 1024 for a process

std::string manifest_path(const std::string& folder) { return folder + "/" + manifest_name; }

}  // namespace

CheckpointReader::CheckpointReader(const std::string& folder)
    : folder_(folder), manifest_(parse_manifest(read_file(manifest_path(folder)), manifest_path(folder))) {}

void CheckpointReader::check_sizes() const {
  for (const StoredFile& expected : manifest_.files) {
    const std::string path = folder_ + "/" + expected.name;
    if (const std::uint64_t bytes = File::open(path).size(); bytes != expected.bytes) {
      throw data_error("{}: has {} bytes, expected {}", path, bytes, expected.bytes);
    }
  }
}

void CheckpointReader::verify(std::size_t index) const {
  std::vector<const StoredSlice*> slices;
  for (const StoredTensor& tensor : manifest_.tensors) {
    for (const StoredSlice& slice : tensor.slices) {
      if (slice.file == index) slices.push_back(&slice);
    }
  }
  // The largest first, so that no thread begins with it when the others have nothing left.
  std::stable_sort(slices.begin(), slices.end(), [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  const StoredFile& stored = manifest_.files.at(index);
  verify_file(folder_ + "/" + stored.name, stored, slices, omp_get_max_threads());
}

const StoredTensor& CheckpointReader::require(const std::string& name, DType dtype,
                                              const std::vector<std::int64_t>& shape) const {
  const StoredTensor* tensor = manifest_.find(name);
  if (tensor == nullptr) throw data_error("{}: there is no tensor {}", folder_, name);
  if (tensor->dtype != dtype || tensor->shape != shape) {
    throw data_error("{}: {} is {} [{}], expected {} [{}]", folder_, name, safetensors_name(tensor->dtype),
                     fmt::join(tensor->shape, ", "), safetensors_name(dtype), fmt::join(shape, ", "));
  }
  return *tensor;
}

std::shared_ptr<const File> CheckpointReader::file(std::size_t index) const {
  const std::scoped_lock lock(mutex_);
  const auto found = open_.find(index);
  if (found != open_.end()) return found->second;
  if (open_.size() >= max_open_files) open_.clear();
  auto file = std::make_shared<const File>(File::open(folder_ + "/" + manifest_.files[index].name));
  return open_.emplace(index, std::move(file)).first->second;
}

void CheckpointReader::read(const StoredTensor& tensor, const Rectangle& wanted, void* out) const {
  const std::size_t element = size_of(tensor.dtype);
  auto* bytes = static_cast<std::byte*>(out);
  for (const StoredSlice& slice : tensor.slices) {
    const std::optional<Rectangle> both = intersection(wanted, slice.rectangle);
    if (!both) continue;
    const auto place = [&](const Rectangle& in, std::int64_t row) {
      return static_cast<std::size_t>((row - in.row_begin) * in.columns() + both->column_begin - in.column_begin) * element;
    };
    const auto row_bytes = static_cast<std::size_t>(both->columns()) * element;
    // Rows that are whole on both sides follow each other on both sides.
    const bool whole_rows = both->columns() == wanted.columns() && both->columns() == slice.rectangle.columns();
    const std::int64_t step = whole_rows ? both->rows() : 1;
    const std::shared_ptr<const File> from = file(slice.file);
    for (std::int64_t row = both->row_begin; row < both->row_end; row += step) {
      from->read_at(bytes + place(wanted, row), row_bytes * static_cast<std::size_t>(step),
                    slice.offset + place(slice.rectangle, row));
    }
  }
}

}  // namespace longwave
