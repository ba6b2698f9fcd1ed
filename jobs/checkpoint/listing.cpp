#include "jobs/checkpoint/listing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

#include "core/base/safetensors_header.h"
#include "jobs/checkpoint/resume.h"
#include "jobs/report/text_table.h"
#include "parallel/checkpoint/reader.h"
#include "parallel/checkpoint/step_directory.h"

namespace longwave {
namespace {

std::string size_text(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1'000'000'000) return fmt::format("{:.2f} GB", value / 1e9);
  if (bytes >= 1'000'000) return fmt::format("{:.2f} MB", value / 1e6);
  return fmt::format("{:.1f} kB", value / 1e3);
}

std::string mesh_text(const MeshShape& mesh) { return fmt::format("{} data x {} tensor", mesh.data, mesh.tensor); }

std::vector<double> read_as_double(const CheckpointReader& reader, const StoredTensor& tensor, const Rectangle& part) {
  std::vector<double> values(static_cast<std::size_t>(part.count()));
  if (tensor.dtype == DType::f64) {
    reader.read(tensor, part, values.data());
  } else {
    LONGWAVE_CHECK(tensor.dtype == DType::f32, "{} is {}", tensor.name, name_of(tensor.dtype));
    std::vector<float> narrow(values.size());
    reader.read(tensor, part, narrow.data());
    std::copy(narrow.begin(), narrow.end(), values.begin());
  }
  return values;
}

// Calls visit(rectangle) for bands of rows of bounded size that together are the tensor.
template <class Visit>
void for_each_band(const StoredTensor& tensor, Visit visit) {
  constexpr std::int64_t elements = std::int64_t{1} << 22;
  const Rectangle whole = whole_of(tensor.shape);
  const std::int64_t rows = std::max<std::int64_t>(elements / whole.columns(), 1);
  for (std::int64_t row = 0; row < whole.row_end; row += rows) {
    visit(Rectangle{row, std::min(row + rows, whole.row_end), 0, whole.column_end});
  }
}

double norm_of(const CheckpointReader& reader, const StoredTensor& tensor) {
  double sum = 0;
  for_each_band(tensor, [&](const Rectangle& band) {
    for (const double value : read_as_double(reader, tensor, band)) sum += value * value;
  });
  return std::sqrt(sum);
}

// "0-3, 6" from rank-00000.safetensors and so on.
std::string owners_of(const Manifest& manifest, const StoredTensor& tensor) {
  std::set<int> ranks;
  for (const StoredSlice& slice : tensor.slices) {
    int rank = 0;
    if (std::sscanf(manifest.files[slice.file].name.c_str(), "rank-%d", &rank) == 1) ranks.insert(rank);
  }
  std::string text;
  for (auto first = ranks.begin(); first != ranks.end();) {
    auto last = first;
    while (std::next(last) != ranks.end() && *std::next(last) == *last + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", *first);
    if (last != first) text += fmt::format("-{}", *last);
    first = std::next(last);
  }
  return text;
}

}  // namespace

std::string list_checkpoints(const std::string& run) {
  const std::string folder = checkpoints_folder(run);
  const std::vector<std::int64_t> steps = list_steps(folder);
  if (steps.empty()) throw data_error("{}: holds no checkpoints", run);
  TextTable table({"checkpoint", "time", "mesh", "size", "state"});
  for (const std::int64_t step : steps) {
    try {
      const CheckpointReader reader(folder + "/" + step_name(step));
      const Manifest& manifest = reader.manifest();
      std::string state = "complete";
      try {
        reader.check_sizes();
      } catch (const Error& error) {
        state = error.what();
      }
      table.add_row({step_name(step), manifest.time, mesh_text(manifest.mesh), size_text(manifest.bytes()), state});
    } catch (const Error& error) {
      table.add_row({step_name(step), "", "", "", error.what()});
    }
  }
  return table.str();
}

std::string inspect_checkpoint(const std::string& checkpoint) {
  const CheckpointReader reader(checkpoint);
  reader.check_sizes();
  const Manifest& manifest = reader.manifest();
  TextTable table({"tensor", "shape", "dtype", "norm", "ranks"});
  for (const StoredTensor& tensor : manifest.tensors) {
    table.add_row({tensor.name, fmt::format("[{}]", fmt::join(tensor.shape, ", ")), safetensors_name(tensor.dtype),
                   fmt::format("{:.6g}", norm_of(reader, tensor)), owners_of(manifest, tensor)});
  }
  return fmt::format("{}: step {}, saved {} by {}\n{}, {} tensors in {} file{}, {}\n\n{}", checkpoint, manifest.facts.step,
                     manifest.time, manifest.facts.program, mesh_text(manifest.mesh), manifest.tensors.size(),
                     manifest.files.size(), manifest.files.size() == 1 ? "" : "s", size_text(manifest.bytes()), table.str());
}

std::string verify_checkpoint(const std::string& checkpoint) {
  const CheckpointReader reader(checkpoint);
  reader.check_sizes();
  for (std::size_t file = 0; file < reader.manifest().files.size(); ++file) reader.verify(file);
  return fmt::format("{}: all {} of {} file{} are as written\n", checkpoint, size_text(reader.manifest().bytes()),
                     reader.manifest().files.size(), reader.manifest().files.size() == 1 ? "" : "s");
}

Difference compare_checkpoints(const std::string& first, const std::string& second) {
  const CheckpointReader a(first), b(second);
  TextTable table({"tensor", "elements that differ", "largest difference"});
  std::size_t equal = 0, different = 0;
  for (const StoredTensor& tensor : a.manifest().tensors) {
    const StoredTensor* other = b.manifest().find(tensor.name);
    if (other == nullptr || other->shape != tensor.shape || other->dtype != tensor.dtype) {
      table.add_row({tensor.name, other == nullptr ? "only in the first" : "another shape or dtype", ""});
      ++different;
      continue;
    }
    std::int64_t count = 0;
    double largest = 0;
    for_each_band(tensor, [&](const Rectangle& band) {
      const std::vector<double> x = read_as_double(a, tensor, band), y = read_as_double(b, *other, band);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (std::memcmp(&x[i], &y[i], sizeof(double)) == 0) continue;  // bits: 0 is not -0, a NaN is itself
        ++count;
        largest = std::max(largest, std::abs(x[i] - y[i]));
      }
    });
    ++(count == 0 ? equal : different);
    if (count > 0) table.add_row({tensor.name, fmt::format("{}", count), fmt::format("{:.3g}", largest)});
  }
  for (const StoredTensor& tensor : b.manifest().tensors) {
    if (a.manifest().find(tensor.name) != nullptr) continue;
    table.add_row({tensor.name, "only in the second", ""});
    ++different;
  }
  const std::string summary = fmt::format("{} tensor{} equal, {} differ\n", equal, equal == 1 ? "" : "s", different);
  return {different == 0 ? summary : table.str() + summary, different == 0};
}

}  // namespace longwave
