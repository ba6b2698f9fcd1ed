#include "tests/simt/access.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <vector>

#include "tests/simt/block.h"

extern "C" {
extern char __executable_start[];
extern char end[];
}

namespace longwave::simt {
namespace {

constexpr std::size_t static_limit = std::size_t{48} << 10;
constexpr std::size_t gap = 256;  // that no thread may touch, between static arrays and before the dynamic ones
constexpr std::size_t shared_bytes = static_limit + gap + shared_limit + gap;
constexpr std::size_t granule = 2;  // the smallest element a kernel keeps in shared memory

constexpr std::size_t region_bytes = std::size_t{64} << 30;  // reserved, not used, until allocated
constexpr std::size_t redzone = 4096;

// The threads of one warp that read a granule last.
struct Readers {
  Moment last;
  bool present = false;
  bool several = false;  // threads, since the same barriers
};

struct Granule {
  std::uint64_t block = 0;  // the rest is of another block unless this is the running one
  bool written = false;
  bool arriving = false;  // an asynchronous copy is under way
  Moment write;
  Readers readers[2];  // of two warps
};

struct Shared {
  alignas(256) unsigned char memory[shared_bytes];
  std::vector<Granule> granules = std::vector<Granule>(shared_bytes / granule);
  std::uint64_t block = 0;
  std::size_t static_end = 0;
  std::size_t dynamic_end = 0;  // bytes of dynamic memory
  std::vector<std::pair<std::size_t, std::size_t>> static_arrays;
};

Shared& shared() {
  static auto* const instance = new Shared;
  return *instance;
}

constexpr std::size_t dynamic_begin = static_limit + gap;

bool same_warp(const Moment& a, const Moment& b) { return a.thread / 32 == b.thread / 32; }

// True when `before`, earlier in our order of running threads, is ordered before `after` on any device.
bool ordered(const Moment& before, const Moment& after) {
  return before.barriers < after.barriers || (same_warp(before, after) && before.warp_barriers < after.warp_barriers);
}

bool same_interval(const Moment& a, const Moment& b) { return a.barriers == b.barriers && a.warp_barriers == b.warp_barriers; }

bool allocated(const Shared& own, std::size_t offset, std::size_t bytes) {
  if (offset >= dynamic_begin) return offset + bytes <= dynamic_begin + own.dynamic_end;
  for (const auto& [begin, size] : own.static_arrays) {
    if (begin <= offset && offset + bytes <= begin + size) return true;
  }
  return false;
}

Granule& current(Granule& cell, std::uint64_t running) {
  if (cell.block != running) {
    cell = {};
    cell.block = running;
  }
  return cell;
}

void note_read(Granule& cell, const Moment& at) {
  Readers* slot = &cell.readers[0];
  if (slot->present && !same_warp(slot->last, at)) slot = &cell.readers[1];
  slot->several = slot->present && same_interval(slot->last, at) && (slot->several || slot->last.thread != at.thread);
  slot->last = at;
  slot->present = true;
}

void check_granule(Granule& cell, bool writes, const Moment& at, const Place& place) {
  if (cell.arriving) fail("access to shared memory that an asynchronous copy is still writing", place);
  if (!writes && !cell.written) fail("read of shared memory that nothing has written in this block", place);
  if (cell.written && cell.write.thread != at.thread && !ordered(cell.write, at)) {
    fail(fmt::format("{} of shared memory conflicts with the write of thread {}: no barrier is between them",
                        writes ? "write" : "read", cell.write.thread),
            place);
  }
  if (!writes) return note_read(cell, at);
  for (const Readers& readers : cell.readers) {
    if (!readers.present || ordered(readers.last, at)) continue;
    if (readers.last.thread == at.thread && !readers.several) continue;
    fail(fmt::format("write of shared memory conflicts with the read of thread {}{}: no barrier is between them",
                        readers.last.thread, readers.several ? " and others of its warp" : ""),
            place);
  }
  cell.written = true;
  cell.write = at;
  cell.readers[0] = cell.readers[1] = {};
}

template <class Each> void each_granule(std::size_t offset, std::size_t bytes, const Each& each) {
  Shared& own = shared();
  for (std::size_t i = offset / granule; i <= (offset + bytes - 1) / granule; ++i) each(current(own.granules[i], own.block));
}

// Offset in shared memory, or none.
bool in_shared(const void* address, std::size_t* offset) {
  const auto* at = static_cast<const unsigned char*>(address);
  const Shared& own = shared();
  if (at < own.memory || at >= own.memory + shared_bytes) return false;
  *offset = static_cast<std::size_t>(at - own.memory);
  return true;
}

struct Allocation {
  std::size_t bytes;
};

struct DeviceMemory {
  unsigned char* base = nullptr;
  std::size_t used = 0;  // of the region; freed blocks are not used again, so that a stale pointer is always seen
  std::map<std::uintptr_t, Allocation> allocations;
  std::uintptr_t last_begin = 1, last_end = 0;  // of the allocation looked up last
  std::size_t bytes = 0, peak = 0;
  int open = 0;

  DeviceMemory() {
    void* block = mmap(nullptr, region_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED) std::perror("simt: no address space for device memory"), std::abort();
    base = static_cast<unsigned char*>(block);
  }
  void protect(int protection) const {
    if (used > 0 && mprotect(base, used, protection) != 0) std::perror("simt: mprotect"), std::abort();
  }
};

DeviceMemory& device() {
  static auto* const instance = new DeviceMemory;
  return *instance;
}

std::size_t round_up(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

bool in_image(const void* address) {
  return static_cast<const char*>(address) >= __executable_start && static_cast<const char*>(address) < end;
}

}  // namespace

void begin_block(std::size_t dynamic_bytes) {
  Shared& own = shared();
  ++own.block;
  // A pattern that is NaN in fp32, bf16 and fp64.
  std::memset(own.memory, 0xff, own.static_end);
  std::memset(own.memory + dynamic_begin, 0xff, dynamic_bytes);
  own.static_end = 0;
  own.static_arrays.clear();
  own.dynamic_end = dynamic_bytes;
}

unsigned char* shared_dynamic() { return shared().memory + dynamic_begin; }

void* take_static_shared(std::size_t bytes) {
  Shared& own = shared();
  const std::size_t begin = own.static_end;
  if (begin + bytes > static_limit) return nullptr;
  own.static_arrays.emplace_back(begin, bytes);
  own.static_end = round_up(begin + bytes + gap, gap);
  std::memset(own.memory + begin, 0xff, bytes);
  return own.memory + begin;
}

void check_access(const void* address, std::size_t bytes, bool writes, const Place& place) {
  std::size_t offset = 0;
  if (in_shared(address, &offset)) {
    if (!allocated(shared(), offset, bytes)) {
      fail(fmt::format("{} of {} bytes outside the block's shared memory", writes ? "write" : "read", bytes), place);
    }
    const Moment at = now();
    each_granule(offset, bytes, [&](Granule& cell) { check_granule(cell, writes, at, place); });
    return;
  }
  if (on_stack_or_arguments(address, bytes)) return;
  if (is_device(address)) {
    if (inside_allocation(address, bytes)) return;
    fail(fmt::format("{} of {} bytes outside every allocation of device memory", writes ? "write" : "read", bytes), place);
  }
  if (!writes && in_image(address)) return;  // constants
  fail(fmt::format("{} of {} bytes of host memory", writes ? "write" : "read", bytes), place);
}

void start_copy(void* to, std::size_t bytes, const Place& place) {
  check_access(to, bytes, true, place);
  std::size_t offset = 0;
  if (!in_shared(to, &offset)) fail("asynchronous copy to memory that is not shared", place);
  each_granule(offset, bytes, [](Granule& cell) { cell.arriving = true; });
}

void finish_copy(void* to, const void* from, std::size_t bytes) {
  std::size_t offset = 0;
  in_shared(to, &offset);
  const Moment at = now();
  each_granule(offset, bytes, [&](Granule& cell) {
    cell.arriving = false;
    cell.write = at;
  });
  if (from != nullptr) {
    std::memcpy(to, from, bytes);
  } else {
    std::memset(to, 0, bytes);
  }
}

void* allocate_device(std::size_t bytes) {
  DeviceMemory& own = device();
  const std::size_t begin = round_up(own.used + redzone, redzone);
  const std::size_t whole = round_up(begin + bytes + redzone, redzone);
  if (bytes > region_bytes || whole > region_bytes) return nullptr;
  own.used = whole;
  own.protect(own.open > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
  // The end of the block, not only its begin, is where the redzone starts: 256-byte alignment leaves less than that unseen.
  unsigned char* const pointer = own.base + begin;
  own.allocations[reinterpret_cast<std::uintptr_t>(pointer)] = {bytes};
  own.bytes += bytes;
  own.peak = std::max(own.peak, own.bytes);
  const DeviceAccess access;
  std::memset(pointer, 0xff, bytes);
  return pointer;
}

bool free_device(void* pointer) {
  DeviceMemory& own = device();
  const auto found = own.allocations.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == own.allocations.end()) return false;
  own.bytes -= found->second.bytes;
  // The pages go back; the addresses stay closed.
  madvise(pointer, round_up(found->second.bytes, redzone), MADV_DONTNEED);
  own.allocations.erase(found);
  own.last_begin = 1, own.last_end = 0;
  return true;
}

bool is_device(const void* pointer) {
  const auto* at = static_cast<const unsigned char*>(pointer);
  return at >= device().base && at < device().base + region_bytes;
}

bool inside_allocation(const void* pointer, std::size_t bytes) {
  DeviceMemory& own = device();
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  if (own.last_begin <= at && at + bytes <= own.last_end) return true;
  auto found = own.allocations.upper_bound(at);
  if (found == own.allocations.begin()) return false;
  --found;
  own.last_begin = found->first;
  own.last_end = found->first + found->second.bytes;
  return at + bytes <= own.last_end;
}

std::size_t device_bytes() { return device().bytes; }
std::size_t device_peak_bytes() { return device().peak; }

DeviceAccess::DeviceAccess() {
  if (device().open++ == 0) device().protect(PROT_READ | PROT_WRITE);
}

DeviceAccess::~DeviceAccess() {
  if (--device().open == 0) device().protect(PROT_NONE);
}

}  // namespace longwave::simt

namespace {

// What the compiler calls before every load and store of a kernel's source.
void check_instrumented(const void* address, std::size_t bytes, bool writes, const void* code) {
  using namespace longwave::simt;
  if (!in_kernel() || bytes == 0) return;
  const InEmulator guard;
  check_access(address, bytes, writes, Place(code));
}

}  // namespace

extern "C" {
#define LONGWAVE_ACCESS(bytes)                                                                                            \
  void __asan_load##bytes##_noabort(const void* at) { check_instrumented(at, bytes, false, __builtin_return_address(0)); } \
  void __asan_store##bytes##_noabort(const void* at) { check_instrumented(at, bytes, true, __builtin_return_address(0)); }
LONGWAVE_ACCESS(1)
LONGWAVE_ACCESS(2)
LONGWAVE_ACCESS(4)
LONGWAVE_ACCESS(8)
LONGWAVE_ACCESS(16)
void __asan_loadN_noabort(const void* at, std::size_t bytes) {
  check_instrumented(at, bytes, false, __builtin_return_address(0));
}
void __asan_storeN_noabort(const void* at, std::size_t bytes) {
  check_instrumented(at, bytes, true, __builtin_return_address(0));
}
void __asan_handle_no_return() {}
void __asan_before_dynamic_init(const char*) {}
void __asan_after_dynamic_init() {}
}
