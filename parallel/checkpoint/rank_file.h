// The file of one rank in a checkpoint: its slices as a safetensors file. A slice that is a whole tensor has the tensor's name
// and shape; a part of one is called NAME#0, NAME#1, ... and is [rows, columns] of its rectangle.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/checkpoint/manifest.h"
#include "parallel/checkpoint/snapshot.h"

namespace longwave {

struct RankFile {
  StoredFile file;
  std::vector<std::pair<std::size_t, StoredSlice>> slices;  // index of the logical tensor, and the slice
};

// Writes and syncs FOLDER/rank-NNNNN.safetensors; with `verify` the file is read back from the disk and compared. Nothing when
// the rank contributes nothing. Throws io errors; a data_error when what was read back differs.
std::optional<RankFile> write_rank_file(const std::string& folder, int rank, const Snapshot& snapshot, bool verify);

// The same as a line of text, for rank 0.
std::string to_text(const std::optional<RankFile>& written);
std::optional<RankFile> rank_file_from_text(const std::string& text);

// Every byte of a file against its checksums; a data_error names the file, what was expected and what was found.
void verify_file(const std::string& path, const StoredFile& file, const std::vector<const StoredSlice*>& slices, int threads);

}  // namespace longwave
