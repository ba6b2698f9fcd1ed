#include "parallel/checkpoint/rank_file.h"

#include <fcntl.h>

#include "core/base/error.h"
#include "core/base/safetensors.h"
#include "parallel/checkpoint/checksum.h"
#include "parallel/checkpoint/step_directory.h"

namespace longwave {
namespace {

// Names and shapes in the file, in the order of the snapshot's slices.
std::vector<TensorSpec> file_tensors(const Snapshot& snapshot) {
  std::vector<TensorSpec> specs;
  std::vector<int> parts(snapshot.tensors().size());
  for (const SnapshotSlice& slice : snapshot.slices()) {
    const StoredTensor& tensor = snapshot.tensors()[slice.tensor];
    if (slice.rectangle == whole_of(tensor.shape)) {
      specs.push_back({tensor.name, tensor.dtype, tensor.shape});
    } else {
      specs.push_back({fmt::format("{}#{}", tensor.name, parts[slice.tensor]++), tensor.dtype,
                       {slice.rectangle.rows(), slice.rectangle.columns()}});
    }
  }
  return specs;
}

RankFile describe(const std::string& path, const std::string& name, const Snapshot& snapshot, const std::vector<TensorSpec>& specs) {
  RankFile written;
  const File raw = File::open(path);
  std::uint64_t header = 0;
  raw.read_at(&header, sizeof header, 0);
  written.file = {name, raw.size(), sizeof header + header, 0};
  written.file.header_checksum = checksum_of(raw, 0, written.file.header_bytes);
  const SafetensorsFile file(path);
  std::map<std::string, std::uint64_t> begins;
  for (const SafetensorsEntry& entry : file.tensors()) begins[entry.name] = entry.begin;
  for (std::size_t index = 0; index < specs.size(); ++index) {
    const SnapshotSlice& slice = snapshot.slices()[index];
    written.slices.emplace_back(
        slice.tensor, StoredSlice{0, specs[index].name, slice.rectangle, written.file.header_bytes + begins.at(specs[index].name),
                                  slice.bytes, checksum_of(snapshot.data(slice), slice.bytes)});
  }
  return written;
}

void verify_range(const File& file, std::uint64_t begin, std::uint64_t bytes, std::uint64_t expected, const std::string& what) {
  const std::uint64_t found = checksum_of(file, begin, bytes);
  if (found != expected) {
    throw data_error("{}: corrupted: {} has checksum {}, expected {}", file.path(), what, checksum_text(found),
                     checksum_text(expected));
  }
}

}  // namespace

std::optional<RankFile> write_rank_file(const std::string& folder, int rank, const Snapshot& snapshot, bool verify) {
  if (snapshot.slices().empty()) return std::nullopt;
  const std::string name = rank_file_name(rank);
  const std::string path = folder + "/" + name;
  const std::vector<TensorSpec> specs = file_tensors(snapshot);
  {
    SafetensorsWriter writer(path, specs, {{"format", "longwave-checkpoint"}});
    for (std::size_t index = 0; index < specs.size(); ++index) {
      const SnapshotSlice& slice = snapshot.slices()[index];
      writer.write(specs[index].name, snapshot.data(slice), slice.bytes);
    }
    writer.commit();
  }
  RankFile written = describe(path, name, snapshot, specs);
  if (verify) {
    // Synced pages can be dropped, so that what is read back comes from the disk. Where it cannot be, the comparison stands.
    const File file = File::open(path);
    (void)::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
    std::vector<const StoredSlice*> slices;
    for (const auto& [tensor, slice] : written.slices) slices.push_back(&slice);
    verify_file(path, written.file, slices);
  }
  return written;
}

std::string to_text(const std::optional<RankFile>& written) {
  if (!written) return "";
  Json slices = Json::array();
  for (const auto& [tensor, slice] : written->slices) slices.push_back({tensor, to_json(slice)});
  return to_line({{"file", to_json(written->file)}, {"slices", slices}});
}

std::optional<RankFile> rank_file_from_text(const std::string& text) {
  if (text.empty()) return std::nullopt;
  RankFile written;
  read_fields(parse_json(text, "a rank's file list"), "a rank's file list", [&](const Json& json) {
    written.file = file_from_json(json.at("file"));
    for (const Json& slice : json.at("slices")) {
      written.slices.emplace_back(slice.at(0).get<std::size_t>(), slice_from_json(slice.at(1)));
    }
  });
  return written;
}

void verify_file(const std::string& path, const StoredFile& file, const std::vector<const StoredSlice*>& slices) {
  const File opened = File::open(path);
  if (opened.size() != file.bytes) {
    throw data_error("{}: has {} bytes, expected {}", path, opened.size(), file.bytes);
  }
  verify_range(opened, 0, file.header_bytes, file.header_checksum, "the header");
  for (const StoredSlice* slice : slices) verify_range(opened, slice->offset, slice->bytes, slice->checksum, slice->tensor);
}

}  // namespace longwave
