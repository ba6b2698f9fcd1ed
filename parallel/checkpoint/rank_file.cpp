#include "parallel/checkpoint/rank_file.h"

#include <fcntl.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/safetensors_header.h"
#include "parallel/agreement.h"
#include "parallel/checkpoint/checksum.h"
#include "parallel/checkpoint/step_directory.h"

namespace longwave {
namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;  // stays in cache between hashing and writing
constexpr std::uint64_t window_bytes = std::uint64_t{16} << 20;

// Names and shapes in the file, in the order of the snapshot's slices.
std::vector<SafetensorsEntry> file_tensors(const Snapshot& snapshot) {
  std::vector<SafetensorsEntry> entries;
  std::vector<int> parts(snapshot.tensors().size());
  for (const SnapshotSlice& slice : snapshot.slices()) {
    const StoredTensor& tensor = snapshot.tensors()[slice.tensor];
    if (slice.rectangle == whole_of(tensor.shape)) {
      entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
    } else {
      entries.push_back({fmt::format("{}#{}", tensor.name, parts[slice.tensor]++), tensor.dtype,
                         {slice.rectangle.rows(), slice.rectangle.columns()}, 0, 0});
    }
  }
  return entries;
}

// Writes from front to back. The disk begins with what is there while the rest is hashed and copied, so that the last sync
// finds little left to do.
class StreamingWriter {
 public:
  explicit StreamingWriter(const std::string& path) : file_(File::create(path)) {}

  // Returns the checksum of the bytes.
  std::uint64_t write(const std::byte* data, std::size_t bytes) {
    RunningChecksum checksum;
    for (std::size_t done = 0; done < bytes; done += piece_bytes) {
      const std::size_t count = std::min(piece_bytes, bytes - done);
      checksum.add(data + done, count);
      file_.write_at(data + done, count, end_);
      end_ += count;
      if (end_ - handed_over_ >= window_bytes) hand_over();
    }
    return checksum.value();
  }

  void commit() {
    file_.sync();
    file_.close();
  }

  std::uint64_t end() const { return end_; }

 private:
  // A hint: where the file system does not take it, the sync does all.
  void hand_over() {
    (void)::sync_file_range(file_.descriptor(), static_cast<off64_t>(handed_over_), static_cast<off64_t>(end_ - handed_over_),
                            SYNC_FILE_RANGE_WRITE);
    handed_over_ = end_;
  }

  File file_;
  std::uint64_t end_ = 0;
  std::uint64_t handed_over_ = 0;
};

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
  std::vector<SafetensorsEntry> laid_out = file_tensors(snapshot);
  std::map<std::string, std::size_t> slice_of;  // by name in the file
  for (const SafetensorsEntry& entry : laid_out) slice_of.emplace(entry.name, slice_of.size());
  LONGWAVE_CHECK(slice_of.size() == laid_out.size());
  std::string header = format_safetensors_header(laid_out, {{"format", "longwave-checkpoint"}});
  const std::uint64_t length = header.size();
  header.insert(0, reinterpret_cast<const char*>(&length), sizeof length);

  RankFile written;
  StreamingWriter writer(path);
  written.file.name = name;
  written.file.header_checksum = writer.write(reinterpret_cast<const std::byte*>(header.data()), header.size());
  written.file.header_bytes = writer.end();
  for (const SafetensorsEntry& entry : laid_out) {
    const SnapshotSlice& slice = snapshot.slices()[slice_of.at(entry.name)];
    const std::uint64_t offset = writer.end();
    LONGWAVE_CHECK(offset == written.file.header_bytes + entry.begin, "{} begins elsewhere", entry.name);
    const std::uint64_t checksum = writer.write(snapshot.data(slice), slice.bytes);
    written.slices.emplace_back(slice.tensor, StoredSlice{0, entry.name, slice.rectangle, offset, slice.bytes, checksum});
  }
  written.file.bytes = writer.end();
  writer.commit();
  if (verify) {
    // Synced pages can be dropped, so that what is read back comes from the disk. Where it cannot be, the comparison stands.
    const File file = File::open(path);
    (void)::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
    std::vector<const StoredSlice*> slices;
    for (const auto& [tensor, slice] : written.slices) slices.push_back(&slice);
    verify_file(path, written.file, slices, 1);  // the others are training
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

void verify_file(const std::string& path, const StoredFile& file, const std::vector<const StoredSlice*>& slices, int threads) {
  const File opened = File::open(path);
  if (opened.size() != file.bytes) {
    throw data_error("{}: has {} bytes, expected {}", path, opened.size(), file.bytes);
  }
  verify_range(opened, 0, file.header_bytes, file.header_checksum, "the header");
  std::vector<Failure> failures(slices.size());
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const StoredSlice& slice = *slices[i];
    failures[i] = capture([&] { verify_range(opened, slice.offset, slice.bytes, slice.checksum, slice.tensor); });
  }
  for (const Failure& failure : failures) {
    if (failure) throw Error(*failure);
  }
}

}  // namespace longwave
