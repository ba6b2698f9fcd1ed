// The header of a safetensors file: a JSON object that gives each tensor its dtype, shape and byte range in the data that
// follows (https://huggingface.co/docs/safetensors, "Format"). Parsed as hostile input: whatever the bytes are, the result
// is a header whose tensors lie in the data without gap or overlap, or a data_error that names the file and what is wrong.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.h"

namespace longwave {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  // row-major; empty: a scalar
  std::uint64_t begin = 0;          // bytes [begin, end) of the data
  std::uint64_t end = 0;

  std::uint64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

inline constexpr std::uint64_t max_safetensors_header = 100'000'000;  // bytes, the reference implementation's limit

// "F32", "BF16", "F64", "I32".
const char* safetensors_name(DType dtype);

// `text` is the header without its eight bytes of length, `data_bytes` what follows it; `path` is for messages.
SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes, const std::string& path);

// Lays the tensors out by falling element size, so that every one is aligned, filling begin and end, and returns the header
// padded with spaces to a multiple of eight. Names and metadata are UTF-8. Metadata keys are written in the order given.
std::string format_safetensors_header(std::vector<SafetensorsEntry>& tensors,
                                      const std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace longwave
