// Reading a checkpoint by slice: any rectangle of any logical tensor, whatever mesh wrote it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "parallel/checkpoint/manifest.h"

namespace longwave {

class CheckpointReader {
 public:
  // Reads and checks the manifest. data_error: there is none, or it is not to be trusted.
  explicit CheckpointReader(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  void check_sizes() const;                   // every file is there and as long as it should be, or a data_error names it
  void verify(std::size_t file) const;        // every byte of one file, likewise
  // The tensor of this name, dtype and shape, else a data_error that says what the checkpoint has instead.
  const StoredTensor& require(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape) const;
  // The elements of `wanted`, row-major, in the tensor's dtype. Reads no bytes but these.
  void read(const StoredTensor& tensor, const Rectangle& wanted, void* out) const;

 private:
  const File& file(std::size_t index) const;

  std::string folder_;
  Manifest manifest_;
  mutable std::map<std::size_t, File> open_;
};

}  // namespace longwave
