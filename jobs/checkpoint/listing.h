// What `longwave checkpoint list`, `inspect`, `verify` and `diff` print.
#pragma once

#include <string>

#include "core/base/error.h"

namespace longwave {

// The steps of a run: time, mesh, size, and what can be seen wrong without reading tensors.
std::string list_checkpoints(const std::string& run);
// Step, mesh, sizes, and of every tensor shape, dtype, norm and the ranks that wrote it.
std::string inspect_checkpoint(const std::string& checkpoint);
// Reads every byte. A data_error names the bad file.
std::string verify_checkpoint(const std::string& checkpoint);

struct Difference {
  std::string text;  // a line a tensor that differs, and a summary
  bool equal = false;
};

// Tensor by tensor, whatever meshes wrote them.
Difference compare_checkpoints(const std::string& first, const std::string& second);

}  // namespace longwave
