// Reading a checkpoint by slice: any rectangle of any logical tensor, whatever mesh wrote it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
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
  void verify(std::size_t file) const;        // every byte of one file, likewise; by all threads of this rank
  // The tensor of this name, dtype and shape, else a data_error that says what the checkpoint has instead.
  const StoredTensor& require(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape) const;
  // The elements of `wanted`, row-major, in the tensor's dtype. Reads no bytes but these. From any thread.
  void read(const StoredTensor& tensor, const Rectangle& wanted, void* out) const;

 private:
  std::shared_ptr<const File> file(std::size_t index) const;

  std::string folder_;
  Manifest manifest_;
  mutable std::mutex mutex_;  // of open_
  mutable std::map<std::size_t, std::shared_ptr<const File>> open_;
};

}  // namespace longwave
