// Which memory a kernel may touch, and when.
#pragma once

#include <cstddef>

#include "tests/simt/block.h"

namespace longwave::simt {

inline constexpr std::size_t shared_limit = std::size_t{227} << 10;  // of a block on sm_90

// ---- shared memory: poisoned at the start of a block
void begin_block(std::size_t dynamic_bytes);
unsigned char* shared_dynamic();
// `bytes` of static shared memory behind what was taken before; null when the block has no more.
void* take_static_shared(std::size_t bytes);

// Checks an access of the running thread. Built with the address sanitizer, which sees all accesses itself, it does nothing.
void check_access(const void* address, std::size_t bytes, bool writes, const Place& place);
void check_alignment(const void* address, const Place& place);  // of 16 bytes
// An asynchronous copy was started to, or has arrived at, these bytes.
void start_copy(void* to, std::size_t bytes, const Place& place);
void finish_copy(void* to, const void* from, std::size_t bytes);  // `from` null: zeros

// ---- device memory (device_region.cpp): one reserved region, closed to the host while no queue runs
// The part of check_access for an address in that region.
void check_device_access(const void* address, std::size_t bytes, bool writes, const Place& place);
void* allocate_device(std::size_t bytes);  // null when the region is full
bool free_device(void* pointer);           // false: not an allocation
bool is_device(const void* pointer);
bool inside_allocation(const void* pointer, std::size_t bytes);
std::size_t device_bytes();
std::size_t device_peak_bytes();

// Until the end of the last one, what a queue does may open device memory. Nests.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};
// Before device memory is touched within a DeviceAccess. A queue that only looks whether it may go on leaves it closed: the two
// changes of protection would take longer than the look.
void open_device();

}  // namespace longwave::simt
