// Blocks of host memory for the CPU backend.
#pragma once

#include <cstddef>

namespace longwave {

// Zeroed; aligned to 256 bytes, and to 2 MiB with huge pages asked for when it is large. The pages are touched here, by the
// threads that will use them, so that memory that is not there fails now. Throws config_error naming the size.
void* allocate_block(std::size_t bytes);
void release_block(void* pointer);

}  // namespace longwave
