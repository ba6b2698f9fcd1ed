#include "jobs/weights.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/backend/host_copy.h"
#include "core/base/safetensors.h"
#include "jobs/checkpoint/weight_source.h"
#include "parallel/agreement.h"

namespace longwave {
namespace {

constexpr std::int64_t rectangle_words = sizeof(Rectangle) / sizeof(std::int64_t);

// Parts of one tensor, on their way from the rank that has them: rectangles, and their elements one behind the other.
struct Parts {
  std::vector<Rectangle> rectangles;
  std::vector<std::byte> elements;
};

Parts parts_of(const Snapshot& snapshot, std::size_t tensor) {
  Parts parts;
  for (const SnapshotSlice& slice : snapshot.slices()) {
    if (slice.tensor != tensor) continue;
    parts.rectangles.push_back(slice.rectangle);
    parts.elements.insert(parts.elements.end(), snapshot.data(slice), snapshot.data(slice) + slice.bytes);
  }
  return parts;
}

void place(const Parts& parts, const Rectangle& whole, std::size_t element, std::vector<std::byte>& out) {
  const std::byte* from = parts.elements.data();
  for (const Rectangle& part : parts.rectangles) {
    const std::size_t bytes = static_cast<std::size_t>(part.columns()) * element;
    for (std::int64_t row = part.row_begin; row < part.row_end; ++row, from += bytes) {
      std::memcpy(out.data() + static_cast<std::size_t>(row * whole.columns() + part.column_begin) * element, from, bytes);
    }
  }
}

// Collective: the whole tensor on rank 0.
std::vector<std::byte> gather(const Snapshot& snapshot, std::size_t index, Communicator& control) {
  Parts parts = parts_of(snapshot, index);
  const std::int64_t sizes[2] = {static_cast<std::int64_t>(parts.rectangles.size()),
                                 static_cast<std::int64_t>(parts.elements.size())};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(control.size()));
  control.all_gather(sizes, all.data(), 2, Element::i64);
  if (control.rank() != 0) {
    if (sizes[0] == 0) return {};
    control.send(parts.rectangles.data(), sizes[0] * rectangle_words, Element::i64, 0);
    control.send(parts.elements.data(), sizes[1], Element::byte, 0);
    return {};
  }
  const StoredTensor& tensor = snapshot.tensors()[index];
  const Rectangle whole = whole_of(tensor.shape);
  std::vector<std::byte> out(static_cast<std::size_t>(whole.count()) * size_of(tensor.dtype));
  for (int rank = 0; rank < control.size(); ++rank) {
    const std::size_t at = 2 * static_cast<std::size_t>(rank);
    if (all[at] == 0) continue;
    if (rank > 0) {
      parts.rectangles.resize(static_cast<std::size_t>(all[at]));
      parts.elements.resize(static_cast<std::size_t>(all[at + 1]));
      control.recv(parts.rectangles.data(), all[at] * rectangle_words, Element::i64, rank);
      control.recv(parts.elements.data(), all[at + 1], Element::byte, rank);
    }
    place(parts, whole, size_of(tensor.dtype), out);
  }
  return out;
}

}  // namespace

void write_weights(const std::string& path, Snapshot& snapshot, Communicator& control,
                   const std::vector<std::pair<std::string, std::string>>& metadata) {
  const bool writes = control.rank() == 0;
  std::vector<std::size_t> wanted;
  std::vector<TensorSpec> specs;
  for (std::size_t index = 0; index < snapshot.tensors().size(); ++index) {
    const StoredTensor& tensor = snapshot.tensors()[index];
    if (tensor.name.starts_with("optimizer.")) continue;
    wanted.push_back(index);
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  together(control, [&] { snapshot.capture(); });
  std::optional<SafetensorsWriter> writer;
  Failure failure = capture([&] {
    if (writes) writer.emplace(path, specs, metadata);
  });
  // The gathering goes on after a failed write, so that no rank is left in the middle of an exchange.
  for (const std::size_t index : wanted) {
    const std::vector<std::byte> whole = gather(snapshot, index, control);
    if (!writes || failure) continue;
    failure = capture([&] { writer->write(snapshot.tensors()[index].name, whole.data(), whole.size()); });
  }
  if (writes && !failure) failure = capture([&] { writer->commit(); });
  raise_together(control, failure);
}

void read_weights(const std::string& path, Transformer& model, Backend& backend) {
  const SafetensorsFile file(path);
  if (file.has_checksum()) file.verify();
  ParameterStore& store = model.parameters();
  for (std::size_t index = 0; index < store.parameters().size(); ++index) {
    const Parameter& parameter = store[index];
    const DType stored = parameter.dtype == DType::f64 ? DType::f64 : DType::f32;
    const SafetensorsEntry& entry = file.require({parameter.name, stored, extents(parameter.global_shape)});
    std::vector<std::byte> local(static_cast<std::size_t>(parameter.count()) * size_of(stored));  // padding stays zero
    for (const RunPiece& piece : pieces_of_run(parameter, 0, parameter.count())) {
      read_rectangle(file, entry, piece.rectangle, local.data() + static_cast<std::size_t>(piece.offset) * size_of(stored));
    }
    if (stored == DType::f64) {
      backend.copy_from_host(store.value(index), local.data());
    } else {
      upload(backend, reinterpret_cast<const float*>(local.data()), store.value(index));
    }
  }
  model.parameters_loaded();
}

}  // namespace longwave
