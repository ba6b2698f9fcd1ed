// Reading and writing safetensors files, by byte range, so that a rank touches only its slice of a tensor. Files written here
// carry a checksum of every byte in their metadata ("xxh3"), which the format lacks; any safetensors reader opens them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/base/safetensors_header.h"

namespace longwave {

struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
};

// Declare every tensor, write their bytes in any order and in pieces, commit. The file has its name only when it is whole
// and on disk; without commit() nothing remains. For one thread. Throws io errors.
class SafetensorsWriter {
 public:
  using Metadata = std::vector<std::pair<std::string, std::string>>;
  SafetensorsWriter(const std::string& path, const std::vector<TensorSpec>& tensors, const Metadata& metadata = {});

  // `bytes` bytes to `offset` within the tensor.
  void write(const std::string& tensor, const void* data, std::size_t bytes, std::uint64_t offset = 0);
  // Every byte declared must have been written, once.
  void commit();

  std::uint64_t file_bytes() const { return data_begin_ + data_bytes_; }

 private:
  AtomicFile file_;
  std::map<std::string, SafetensorsEntry> tensors_;
  std::uint64_t data_begin_ = 0;  // where the data starts in the file
  std::uint64_t data_bytes_ = 0;
  std::uint64_t written_ = 0;
};

// Opening reads and checks the header only. Reads use pread and may come from several threads.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);  // data_error: missing, foreign, truncated, malformed

  const std::string& path() const { return file_.path(); }
  const std::vector<SafetensorsEntry>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const SafetensorsEntry* find(const std::string& name) const;    // null when there is none
  // The tensor of this name, dtype and shape, else a data_error that says what the file has instead.
  const SafetensorsEntry& require(const TensorSpec& expected) const;

  // Bytes [offset, offset + bytes) of the tensor.
  void read(const SafetensorsEntry& tensor, void* out, std::size_t bytes, std::uint64_t offset) const;
  void read(const SafetensorsEntry& tensor, void* out) const { read(tensor, out, tensor.bytes(), 0); }
  // Rows [begin, end) along the first axis.
  void read_rows(const SafetensorsEntry& tensor, std::int64_t begin, std::int64_t end, void* out) const;

  bool has_checksum() const;  // written by SafetensorsWriter and not rewritten by another program
  // Reads the whole file; a data_error when a byte differs from what was written, or when there is no checksum.
  void verify() const;

 private:
  File file_;
  SafetensorsHeader header_;
  std::uint64_t data_begin_ = 0;
};

}  // namespace longwave
