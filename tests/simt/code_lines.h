// Names of lines of source, for reports.
#pragma once

#include <string>
#include <string_view>

namespace longwave::simt {

// "core/backend/cuda/norm.cu:40" of an address in this program's code, by its debug information.
std::string line_of_code(const void* address);
// The same of a file as the compiler names it, which may be from the build folder: a person wants it from the top of the tree.
std::string line_of_file(std::string_view name, int line);

}  // namespace longwave::simt
