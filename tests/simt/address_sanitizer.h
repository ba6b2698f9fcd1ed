// Whether this is the build under the address sanitizer, and how it is told which memory nobody may touch.
#pragma once

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define LONGWAVE_CLOSE_MEMORY(address, bytes) __asan_poison_memory_region(address, bytes)
#define LONGWAVE_OPEN_MEMORY(address, bytes) __asan_unpoison_memory_region(address, bytes)
namespace longwave::simt {
inline constexpr bool under_address_sanitizer = true;
}
#else
#define LONGWAVE_CLOSE_MEMORY(address, bytes)
#define LONGWAVE_OPEN_MEMORY(address, bytes)
namespace longwave::simt {
inline constexpr bool under_address_sanitizer = false;
}
#endif
