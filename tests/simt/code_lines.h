// File and line of an address in this program's code, from its debug information.
#pragma once

#include <string>

namespace longwave::simt {

std::string line_of_code(const void* address);  // "core/backend/cuda/norm.cu:42"

}  // namespace longwave::simt
