#include "parallel/checkpoint/coverage.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>

#include "core/base/error.h"

namespace longwave {
namespace {

constexpr std::int64_t max_elements = std::int64_t{1} << 52;  // so that bytes and their sums fit 64 bits

void check_shape(const StoredTensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.shape) {
    if (extent < 1 || extent > max_elements / count) throw data_error("{}: a shape of such a size cannot be", tensor.name);
    count *= extent;
  }
}

void check_slice(const Manifest& manifest, const StoredTensor& tensor, const StoredSlice& slice) {
  const Rectangle whole = whole_of(tensor.shape);
  const Rectangle& part = slice.rectangle;
  const bool inside = part.row_begin < part.row_end && part.row_end <= whole.row_end && part.column_begin < part.column_end &&
                      part.column_end <= whole.column_end;
  if (!inside) throw data_error("{}: the slice {} lies outside the tensor", tensor.name, slice.tensor);
  if (slice.bytes != static_cast<std::uint64_t>(part.count()) * size_of(tensor.dtype)) {
    throw data_error("{}: the slice {} has {} bytes for {} elements", tensor.name, slice.tensor, slice.bytes, part.count());
  }
  if (slice.file >= manifest.files.size()) throw data_error("{}: a slice is in file {} of {}", tensor.name, slice.file,
                                                            manifest.files.size());
}

// Sweeps along the rows. Slices that lie in the same rows stand ordered by column, so an overlap shows between neighbours.
void check_disjoint(const StoredTensor& tensor) {
  std::vector<const Rectangle*> parts;
  for (const StoredSlice& slice : tensor.slices) parts.push_back(&slice.rectangle);
  std::sort(parts.begin(), parts.end(), [](const Rectangle* a, const Rectangle* b) { return a->row_begin < b->row_begin; });
  using Ending = std::pair<std::int64_t, const Rectangle*>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> endings;
  std::map<std::int64_t, const Rectangle*> open;  // by first column
  for (const Rectangle* part : parts) {
    while (!endings.empty() && endings.top().first <= part->row_begin) {
      open.erase(endings.top().second->column_begin);
      endings.pop();
    }
    const auto [here, fresh] = open.emplace(part->column_begin, part);
    const auto next = std::next(here);
    const bool clear = fresh && (next == open.end() || part->column_end <= next->first) &&
                       (here == open.begin() || std::prev(here)->second->column_end <= part->column_begin);
    if (!clear) throw data_error("{}: slices overlap", tensor.name);
    endings.emplace(part->row_end, part);
  }
}

void check_tensor(const Manifest& manifest, const StoredTensor& tensor) {
  check_shape(tensor);
  std::int64_t covered = 0;
  for (const StoredSlice& slice : tensor.slices) {
    check_slice(manifest, tensor, slice);
    covered += slice.rectangle.count();
    if (covered > max_elements) throw data_error("{}: slices overlap", tensor.name);
  }
  check_disjoint(tensor);
  if (const std::int64_t count = whole_of(tensor.shape).count(); covered != count) {
    throw data_error("{}: slices hold {} of {} elements", tensor.name, covered, count);
  }
}

void check_files(const Manifest& manifest) {
  std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> ranges(manifest.files.size());  // offset and bytes
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const StoredSlice& slice : tensor.slices) ranges[slice.file].emplace_back(slice.offset, slice.bytes);
  }
  std::set<std::string> names;
  for (std::size_t index = 0; index < manifest.files.size(); ++index) {
    const StoredFile& file = manifest.files[index];
    const bool plain = !file.name.empty() && file.name.find('/') == std::string::npos &&
                       file.name.find('\0') == std::string::npos && file.name != "." && file.name != ".." &&
                       file.name != manifest_name;
    if (!plain || !names.insert(file.name).second) throw data_error("'{}' is no name for a file", file.name);
    std::sort(ranges[index].begin(), ranges[index].end());
    std::uint64_t end = file.header_bytes;
    for (const auto& [offset, bytes] : ranges[index]) {
      if (offset != end || bytes > file.bytes - std::min(offset, file.bytes)) {
        throw data_error("{}: slices do not cover the file: one begins at byte {}, expected {}", file.name, offset, end);
      }
      end += bytes;
    }
    if (end != file.bytes) throw data_error("{}: slices end at byte {} of {}", file.name, end, file.bytes);
  }
}

}  // namespace

void check_coverage(const Manifest& manifest) {
  if (manifest.mesh.data < 1 || manifest.mesh.tensor < 1) throw data_error("the mesh has no ranks");
  std::set<std::string> names;
  for (const StoredTensor& tensor : manifest.tensors) {
    if (!names.insert(tensor.name).second) throw data_error("{}: is there twice", tensor.name);
    check_tensor(manifest, tensor);
  }
  check_files(manifest);
}

}  // namespace longwave
