// Device memory: one reserved region, closed to the host while no queue runs, and who touched what of it during a launch.
//
// Blocks of a launch run in any order on a device, and nothing that kernels use orders one after another; threads of one block
// are ordered by barriers. So of two accesses to one place, one of them a write, by two blocks, or by two threads without a
// barrier between them, the result is a matter of luck, whatever came out here.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <utility>

#include "core/base/divide.h"
#include "tests/simt/access.h"
#include "tests/simt/address_sanitizer.h"
#include "tests/simt/running_block.h"

namespace longwave::simt {
namespace {

constexpr std::size_t region_bytes = std::size_t{64} << 30;  // reserved, not used, until allocated
constexpr std::size_t redzone = 4096;
constexpr std::size_t huge_page = std::size_t{2} << 20;  // in whole ones, opening and closing changes few entries of the page table
constexpr std::size_t cell_bytes = 2;  // the smallest element a kernel keeps in device memory

// The accesses to one place by the running launch.
struct Cell {
  std::uint32_t launch;  // the rest is of another unless this is the running one
  std::uint32_t write_block, read_block;  // the latest
  Moment write, read;
  bool written, was_read;
  bool several_threads;  // of read_block read it since the same barriers
  bool several_blocks;   // read it
};

struct Allocation {
  std::size_t bytes;
  std::unique_ptr<Cell, void (*)(void*)> cells{nullptr, std::free};  // made by the first kernel that comes here
};

struct DeviceMemory {
  unsigned char* base = nullptr;
  std::size_t used = 0;  // of the region; freed blocks are not used again, so that a stale pointer is always seen
  std::map<std::uintptr_t, Allocation> allocations;
  std::map<std::uintptr_t, Allocation>::iterator last = allocations.end();  // looked up last
  std::size_t bytes = 0, peak = 0;
  int accesses = 0;
  bool open = false;

  DeviceMemory() {
    void* block = mmap(nullptr, region_bytes + huge_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED) std::perror("simt: no address space for device memory"), std::abort();
    base = static_cast<unsigned char*>(block) + (huge_page - reinterpret_cast<std::uintptr_t>(block) % huge_page);
    madvise(base, region_bytes, MADV_HUGEPAGE);  // a wish
  }
  void protect(int protection) const {
    if (used > 0 && mprotect(base, round_up(used, huge_page), protection) != 0) std::perror("simt: mprotect"), std::abort();
  }
  // The allocation that holds these bytes, or the end of `allocations`.
  std::map<std::uintptr_t, Allocation>::iterator find(const void* pointer, std::size_t wanted) {
    const auto at = reinterpret_cast<std::uintptr_t>(pointer);
    const auto holds = [&](auto found) { return found->first <= at && at + wanted <= found->first + found->second.bytes; };
    if (last != allocations.end() && holds(last)) return last;
    auto found = allocations.upper_bound(at);
    if (found == allocations.begin() || !holds(--found)) return allocations.end();
    return last = found;
  }
};

DeviceMemory& device() {
  static auto* const instance = new DeviceMemory;
  return *instance;
}

std::string block_text(std::uint32_t number) {
  const auto x = static_cast<std::uint32_t>(grid_extent(0)), y = static_cast<std::uint32_t>(grid_extent(1));
  return fmt::format("({}, {}, {})", number % x, number / x % y, number / x / y);
}

[[noreturn]] void report_race(bool writes, const char* other, std::uint32_t other_block, const Moment& other_moment,
                              const Place& place) {
  const char* const kind = writes ? "write" : "read";
  if (other_block != block->number) {
    fail(fmt::format("{} of device memory conflicts with the {} of block {}, thread {}: nothing orders blocks", kind, other,
                     block_text(other_block), other_moment.thread),
         place);
  }
  fail(fmt::format("{} of device memory conflicts with the {} of thread {}: no barrier is between them", kind, other,
                   other_moment.thread),
       place);
}

// Whether an earlier access by `other_block` is ordered before one of the running thread.
bool ordered_here(std::uint32_t other_block, const Moment& other, const Moment& at) {
  return other_block == block->number && (other.thread == at.thread || ordered(other, at));
}

void note_read(Cell& cell, const Moment& at) {
  if (cell.was_read && cell.read_block != block->number) cell.several_blocks = true;
  const bool together = cell.was_read && cell.read_block == block->number && !ordered(cell.read, at);
  cell.several_threads = together && (cell.several_threads || cell.read.thread != at.thread);
  cell.was_read = true;
  cell.read_block = block->number;
  cell.read = at;
}

void check_cell(Cell& cell, bool writes, const Moment& at, const Place& place) {
  if (cell.launch != block->launch_number) {
    cell = {};
    cell.launch = block->launch_number;
  }
  if (cell.written && !ordered_here(cell.write_block, cell.write, at)) {
    report_race(writes, "write", cell.write_block, cell.write, place);
  }
  if (!writes) return note_read(cell, at);
  if (cell.was_read) {
    const bool alone = !cell.several_blocks && !(cell.several_threads && !ordered(cell.read, at));
    if (!alone || !ordered_here(cell.read_block, cell.read, at)) report_race(true, "read", cell.read_block, cell.read, place);
  }
  cell.written = true;
  cell.write_block = block->number;
  cell.write = at;
  cell.was_read = false;
}

}  // namespace

void check_device_access(const void* address, std::size_t bytes, bool writes, const Place& place) {
  const auto found = device().find(address, bytes);
  if (found == device().allocations.end()) {
    fail(fmt::format("{} of {} bytes outside every allocation of device memory", writes ? "write" : "read", bytes), place);
  }
  Allocation& own = found->second;
  if (own.cells == nullptr) own.cells.reset(static_cast<Cell*>(std::calloc(own.bytes / cell_bytes + 1, sizeof(Cell))));
  if (own.cells == nullptr) std::perror("simt: no memory for the cells of an allocation"), std::abort();
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(address) - found->first;
  const Moment at = now();
  for (std::size_t i = offset / cell_bytes; i <= (offset + bytes - 1) / cell_bytes; ++i) {
    check_cell(own.cells.get()[i], writes, at, place);
  }
}

void* allocate_device(std::size_t bytes) {
  DeviceMemory& own = device();
  const std::size_t begin = round_up(own.used + redzone, redzone);
  const std::size_t whole = round_up(begin + bytes + redzone, redzone);
  if (bytes > region_bytes || whole > region_bytes) return nullptr;
  LONGWAVE_CLOSE_MEMORY(own.base + own.used, whole - own.used);
  own.used = whole;
  own.protect(own.open ? PROT_READ | PROT_WRITE : PROT_NONE);
  // The end of the block, not only its begin, is where the redzone starts: 256-byte alignment leaves less than that unseen.
  unsigned char* const pointer = own.base + begin;
  LONGWAVE_OPEN_MEMORY(pointer, bytes);
  own.allocations.emplace(reinterpret_cast<std::uintptr_t>(pointer), Allocation{bytes});
  own.bytes += bytes;
  own.peak = std::max(own.peak, own.bytes);
  const DeviceAccess access;
  open_device();
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
  LONGWAVE_CLOSE_MEMORY(pointer, found->second.bytes);
  own.allocations.erase(found);
  own.last = own.allocations.end();
  return true;
}

bool is_device(const void* pointer) {
  const auto* at = static_cast<const unsigned char*>(pointer);
  return at >= device().base && at < device().base + region_bytes;
}

bool inside_allocation(const void* pointer, std::size_t bytes) { return device().find(pointer, bytes) != device().allocations.end(); }

std::size_t device_bytes() { return device().bytes; }
std::size_t device_peak_bytes() { return device().peak; }

DeviceAccess::DeviceAccess() { ++device().accesses; }

DeviceAccess::~DeviceAccess() {
  if (--device().accesses > 0 || !device().open) return;
  device().protect(PROT_NONE);
  device().open = false;
}

void open_device() {
  if (device().accesses == 0) std::fprintf(stderr, "simt: device memory is opened outside a queue\n"), std::abort();
  if (std::exchange(device().open, true)) return;
  device().protect(PROT_READ | PROT_WRITE);
}

}  // namespace longwave::simt
