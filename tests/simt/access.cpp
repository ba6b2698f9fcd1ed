#include "tests/simt/access.h"

#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <vector>

#include "tests/simt/address_sanitizer.h"
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

bool in_image(const void* address) {
  return static_cast<const char*>(address) >= __executable_start && static_cast<const char*>(address) < end;
}

}  // namespace

void begin_block(std::size_t dynamic_bytes) {
  Shared& own = shared();
  ++own.block;
  LONGWAVE_OPEN_MEMORY(own.memory, shared_bytes);
  // A pattern that is NaN in fp32, bf16 and fp64.
  std::memset(own.memory, 0xff, own.static_end);
  std::memset(own.memory + dynamic_begin, 0xff, dynamic_bytes);
  LONGWAVE_CLOSE_MEMORY(own.memory, dynamic_begin);
  LONGWAVE_CLOSE_MEMORY(own.memory + dynamic_begin + dynamic_bytes, shared_bytes - dynamic_begin - dynamic_bytes);
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
  own.static_end = (begin + bytes + 2 * gap - 1) / gap * gap;
  LONGWAVE_OPEN_MEMORY(own.memory + begin, bytes);
  std::memset(own.memory + begin, 0xff, bytes);
  return own.memory + begin;
}

void check_alignment(const void* address, const Place& place) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) fail("a 16-byte access to an address that is no multiple of 16", place);
}

void check_access(const void* address, std::size_t bytes, bool writes, const Place& place) {
  if (under_address_sanitizer) return;
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
  if (is_device(address)) return check_device_access(address, bytes, writes, place);
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

}  // namespace longwave::simt

#ifndef __SANITIZE_ADDRESS__
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
#endif
