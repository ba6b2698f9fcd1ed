// A manifest, whatever its bytes: accepted and then consistent, or a data_error. The checksum is made right first, since
// what lies behind it is to be reached.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "parallel/checkpoint/checksum.h"
#include "parallel/checkpoint/coverage.h"

using namespace longwave;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  const std::string prefix = "{\n\"xxh3\": \"";
  if (text.size() >= prefix.size() + 16) {
    text.replace(prefix.size(), 16, "0000000000000000");
    text.replace(prefix.size(), 16, checksum_text(checksum_of(text.data(), text.size())));
  }
  try {
    const Manifest manifest = parse_manifest(text, "m");
    check_coverage(parse_manifest(format_manifest(manifest), "again"));
  } catch (const Error& error) {
    if (error.code() != ExitCode::data || std::string(error.what()).starts_with("again")) std::abort();
  }
  return 0;
}
