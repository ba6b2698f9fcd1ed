// A block of CUDA threads on the host: one fibre a thread, on one operating-system thread. A warp operation finishes when its
// 32 fibres have arrived, a barrier when all of the block have. Every access of a kernel is checked (access.cpp): the
// sources are compiled with -fsanitize=kernel-address, which calls our functions for each load and store.
//
// The first thing a kernel does wrong ends its launch: reported as kernel, block, thread, file and line.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

namespace longwave::simt {

struct Launch {
  const char* kernel = "";
  std::int64_t grid[3] = {1, 1, 1};
  int threads = 0;
  std::size_t shared_bytes = 0;
  std::shared_ptr<const void> arguments;
  std::size_t argument_bytes = 0;
  void (*run)(const void* arguments) = nullptr;
};

// Runs all blocks now, on the calling thread. False after a report.
bool run_launch(const Launch& launch);
// Queues it (runtime.cpp).
void enqueue(cudaStream_t stream, const Launch& launch);

// What kernels did wrong since the last call, oldest first.
std::vector<std::string> take_reports();

// ---- inside a kernel
using Site = std::source_location;

int block_threads();
int grid_extent(int axis);
int thread_index();
int block_index(int axis);

void barrier(Site site);
void warp_barrier(Site site);
std::uint64_t shuffle_xor(std::uint64_t value, int lanes, Site site);
std::uint64_t shuffle(std::uint64_t value, int lane, Site site);
bool any(bool condition, Site site);
void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1, Site site);
void load_matrices(std::uint32_t (&to)[4], const void* row, bool transposed, Site site);

void* static_shared(std::size_t bytes, const char* declaration);  // the same address for every thread of a block
unsigned char* dynamic_shared();
void load16(std::uint32_t (&to)[4], const void* from, Site site);
void store16(void* to, const std::uint32_t (&from)[4], Site site);
void copy_async16(void* to, const void* from, bool valid, Site site);
void copy_async_commit();
void copy_async_wait(int groups);

std::uint16_t round_to_bf16(float value);  // to nearest even

// ---- between the parts of the emulator
// Where in a kernel's source: told by the caller, or found from an address in its code.
class Place {
 public:
  Place(Site site) : site_(site) {}  // NOLINT: a site is a place
  explicit Place(const void* code) : code_(code) {}
  std::string text() const;

 private:
  Site site_;
  const void* code_ = nullptr;
};

// Ends the launch; called inside a kernel.
[[noreturn]] void fail(const std::string& what, Place place);

// A thread at a moment, for ordering accesses: barriers it has passed, and warp barriers of its warp.
struct Moment {
  std::uint32_t barriers = 0;
  std::uint32_t warp_barriers = 0;
  std::uint16_t thread = 0;
};
Moment now();
inline bool same_warp(const Moment& a, const Moment& b) { return a.thread / 32 == b.thread / 32; }
// True when `before`, earlier in our order of running the threads of a block, is ordered before `after` on any device.
inline bool ordered(const Moment& before, const Moment& after) {
  return before.barriers < after.barriers || (same_warp(before, after) && before.warp_barriers < after.warp_barriers);
}
// True in code of a kernel, false in ours. Templates that both use may be the checked ones, so ours must say where they are.
bool in_kernel();
class InEmulator {
 public:
  InEmulator();
  ~InEmulator();
  InEmulator(const InEmulator&) = delete;
  InEmulator& operator=(const InEmulator&) = delete;
};
bool on_stack_or_arguments(const void* address, std::size_t bytes);  // of the running thread and launch

}  // namespace longwave::simt
