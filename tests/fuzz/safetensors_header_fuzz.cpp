// A safetensors header, whatever its bytes: accepted, with tensors that lie in the data without gap or overlap, or a data_error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"
#include "core/base/safetensors_header.h"

using namespace longwave;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The first two bytes are the amount of data that follows the header.
  if (size < 2) return 0;
  const std::uint64_t data_bytes = data[0] | data[1] << 8;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  try {
    std::uint64_t end = 0;
    for (const SafetensorsEntry& tensor : parse_safetensors_header(text, data_bytes, "f").tensors) {
      std::uint64_t bytes = size_of(tensor.dtype);
      for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::uint64_t>(extent);
      if (tensor.begin != end || tensor.bytes() != bytes) std::abort();
      end = tensor.end;
    }
    if (end != data_bytes) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) std::abort();
  }
  return 0;
}
