#include "jobs/weights.h"

#include <algorithm>
#include <optional>

#include "core/backend/host_copy.h"
#include "core/base/safetensors.h"
#include "parallel/agreement.h"

namespace longwave {
namespace {

std::vector<std::int64_t> extents(const Shape& shape) { return {shape.extent.begin(), shape.extent.begin() + shape.rank}; }

// A run of one shard's row-major matrix: elements [begin, begin + count), and where that shard's part begins along the split.
struct Run {
  std::int64_t split_begin = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
};
constexpr std::int64_t run_words = sizeof(Run) / sizeof(std::int64_t);

// Columns of the matrix as it is stored: everything behind the first axis.
std::int64_t columns_of(const Shape& shape) { return shape.rank < 2 ? 1 : shape.count() / std::max<std::int64_t>(shape[0], 1); }

// Places a run into the logical matrix, dropping padding.
void place(const Parameter& parameter, const Run& run, const float* values, std::vector<float>& whole) {
  const std::int64_t whole_columns = columns_of(parameter.global_shape);
  const std::int64_t columns = columns_of(parameter.shape);
  const std::int64_t row_shift = parameter.split == Split::rows ? run.split_begin : 0;
  const std::int64_t column_shift = parameter.split == Split::columns ? run.split_begin : 0;
  for (std::int64_t at = run.begin; at < run.begin + run.count;) {
    const std::int64_t row = at / columns, column = at % columns;
    const std::int64_t length = std::min(columns - column, run.begin + run.count - at);
    if (row + row_shift < parameter.global_shape[0]) {
      std::copy_n(values + (at - run.begin), length, whole.begin() + (row + row_shift) * whole_columns + column + column_shift);
    }
    at += length;
  }
}

// What this rank contributes to each parameter.
class Contributions {
 public:
  Contributions(const Transformer& model, Backend& backend, const DataParallel& optimizer, Mesh& mesh)
      : store_(model.parameters()), backend_(backend), tensor_rank_(mesh.tensor_rank()), first_data_rank_(mesh.data_rank() == 0),
        slices_(optimizer.owned_slices()), sharded_(optimizer.shards_optimizer()) {}

  void of(std::size_t index, std::vector<Run>& runs, std::vector<float>& values) const {
    runs.clear();
    values.clear();
    const Parameter& parameter = store_[index];
    if (tensor_rank_ % parameter.replicas != 0) return;  // an equal copy is on the shard before
    const auto append = [&](std::int64_t begin, const std::vector<float>& piece) {
      runs.push_back({parameter.begin, begin, static_cast<std::int64_t>(piece.size())});
      values.insert(values.end(), piece.begin(), piece.end());
    };
    if (parameter.frozen) {
      if (first_data_rank_) append(0, download(backend_, store_.value(index)));
      return;
    }
    if (!sharded_ && !first_data_rank_) return;
    for (const OwnedSlice& slice : slices_) {
      if (slice.parameter == index) append(slice.begin, download(backend_, slice.master));
    }
  }

 private:
  const ParameterStore& store_;
  Backend& backend_;
  int tensor_rank_;
  bool first_data_rank_;
  std::vector<OwnedSlice> slices_;
  bool sharded_;
};

// Collective: the logical matrix on rank 0.
std::vector<float> gather_parameter(const Parameter& parameter, std::size_t index, const Contributions& contributions, Communicator& control) {
  std::vector<Run> runs;
  std::vector<float> values;
  contributions.of(index, runs, values);
  const std::int64_t sizes[2] = {static_cast<std::int64_t>(runs.size()), static_cast<std::int64_t>(values.size())};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(control.size()));
  control.all_gather(sizes, all.data(), 2, Element::i64);
  if (control.rank() != 0) {
    if (sizes[0] > 0) {
      control.send(runs.data(), sizes[0] * run_words, Element::i64, 0);
      control.send(values.data(), sizes[1], Element::f32, 0);
    }
    return {};
  }
  std::vector<float> whole(static_cast<std::size_t>(parameter.global_shape.count()));
  for (int rank = 0; rank < control.size(); ++rank) {
    const std::size_t at = 2 * static_cast<std::size_t>(rank);
    if (rank > 0 && all[at] > 0) {
      runs.resize(static_cast<std::size_t>(all[at]));
      values.resize(static_cast<std::size_t>(all[at + 1]));
      control.recv(runs.data(), all[at] * run_words, Element::i64, rank);
      control.recv(values.data(), all[at + 1], Element::f32, rank);
    }
    if (all[at] == 0) continue;
    const float* piece = values.data();
    for (const Run& run : runs) {
      place(parameter, run, piece, whole);
      piece += run.count;
    }
  }
  return whole;
}

}  // namespace

void write_weights(const std::string& path, const Transformer& model, Backend& backend, const DataParallel& optimizer, Mesh& mesh,
                   const std::vector<std::pair<std::string, std::string>>& metadata) {
  const ParameterStore& store = model.parameters();
  const Contributions contributions(model, backend, optimizer, mesh);
  const bool writes = mesh.control().rank() == 0;
  std::optional<SafetensorsWriter> writer;
  Failure failure = capture([&] {
    if (!writes) return;
    std::vector<TensorSpec> specs;
    for (const Parameter& parameter : store.parameters()) {
      specs.push_back({parameter.name, parameter.dtype == DType::f64 ? DType::f64 : DType::f32, extents(parameter.global_shape)});
    }
    writer.emplace(path, specs, metadata);
  });
  // The gathering goes on after a failed write, so that no rank is left in the middle of an exchange.
  for (std::size_t index = 0; index < store.parameters().size(); ++index) {
    const Parameter& parameter = store[index];
    if (parameter.dtype == DType::f64) {
      std::vector<double> values(static_cast<std::size_t>(parameter.count()));
      backend.copy_to_host(values.data(), store.value(index));
      if (writes && !failure) failure = capture([&] { writer->write(parameter.name, values.data(), values.size() * sizeof(double)); });
      continue;
    }
    const std::vector<float> whole = gather_parameter(parameter, index, contributions, mesh.control());
    if (writes && !failure) failure = capture([&] { writer->write(parameter.name, whole.data(), whole.size() * sizeof(float)); });
  }
  if (writes && !failure) failure = capture([&] { writer->commit(); });
  raise_together(mesh.control(), failure);
}

void read_weights(const std::string& path, Transformer& model, Backend& backend) {
  const SafetensorsFile file(path);
  if (file.has_checksum()) file.verify();
  ParameterStore& store = model.parameters();
  for (std::size_t index = 0; index < store.parameters().size(); ++index) {
    const Parameter& parameter = store[index];
    const DType stored = parameter.dtype == DType::f64 ? DType::f64 : DType::f32;
    const SafetensorsEntry& entry = file.require({parameter.name, stored, extents(parameter.global_shape)});
    if (stored == DType::f64) {
      std::vector<double> values(static_cast<std::size_t>(parameter.count()));
      file.read(entry, values.data());
      backend.copy_from_host(store.value(index), values.data());
      continue;
    }
    std::vector<float> local(static_cast<std::size_t>(parameter.count()));
    const std::int64_t columns = columns_of(parameter.shape);
    if (parameter.split == Split::columns) {
      std::vector<float> whole(static_cast<std::size_t>(parameter.global_shape.count()));
      file.read(entry, whole.data());
      for (std::int64_t row = 0; row < parameter.shape[0]; ++row) {
        std::copy_n(whole.begin() + row * columns_of(parameter.global_shape) + parameter.begin, columns, local.begin() + row * columns);
      }
    } else {
      const std::int64_t begin = parameter.split == Split::rows ? parameter.begin : 0;
      const std::int64_t end = std::min(begin + parameter.shape[0], parameter.global_shape[0]);
      if (begin < end) file.read_rows(entry, begin, end, local.data());
    }
    upload(backend, local.data(), store.value(index));
  }
  model.parameters_loaded();
}

}  // namespace longwave
