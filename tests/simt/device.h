// The emulated device: what core/backend/cuda/device.h offers under nvcc, on the host. See README.md.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <source_location>
#include <tuple>

#include "tests/simt/block.h"

#define LONGWAVE_KERNEL(threads) [[maybe_unused]] static void
#define LONGWAVE_DEVICE inline
#define LONGWAVE_UNROLL
#define LONGWAVE_SHARED(Type, name, count)                                                     \
  Type* const name = static_cast<Type*>(::longwave::simt::static_shared(sizeof(Type) * (count), [] { \
    static const char site = 0;                                                                \
    return &site;                                                                              \
  }()))

namespace longwave::device {

using Site = std::source_location;

inline int thread() { return simt::thread_index(); }
inline int threads() { return simt::block_threads(); }
inline int block_x() { return simt::block_index(0); }
inline int block_y() { return simt::block_index(1); }
inline int block_z() { return simt::block_index(2); }
inline int grid_x() { return simt::grid_extent(0); }

inline void barrier(Site site = Site::current()) { simt::barrier(site); }
inline void warp_barrier(Site site = Site::current()) { simt::warp_barrier(site); }

inline float shuffle_xor(float value, int lanes, Site site = Site::current()) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(simt::shuffle_xor(std::bit_cast<std::uint32_t>(value), lanes, site)));
}
inline int shuffle_xor(int value, int lanes, Site site = Site::current()) {
  return static_cast<int>(simt::shuffle_xor(static_cast<std::uint32_t>(value), lanes, site));
}
inline double shuffle_xor(double value, int lanes, Site site = Site::current()) {
  return std::bit_cast<double>(simt::shuffle_xor(std::bit_cast<std::uint64_t>(value), lanes, site));
}
inline float shuffle(float value, int lane, Site site = Site::current()) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(simt::shuffle(std::bit_cast<std::uint32_t>(value), lane, site)));
}
inline bool any(bool condition, Site site = Site::current()) { return simt::any(condition, site); }

inline unsigned char* dynamic_shared() { return simt::dynamic_shared(); }

struct alignas(16) Words4 {
  std::uint32_t word[4];
};

inline Words4 load16(const void* from, Site site = Site::current()) {
  Words4 value;
  simt::load16(value.word, from, site);
  return value;
}
inline void store16(void* to, const Words4& value, Site site = Site::current()) { simt::store16(to, value.word, site); }

struct Bf16 {
  std::uint16_t bits;
};

inline float float_of_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
inline float to_float(Bf16 value) { return float_of_bits(static_cast<std::uint32_t>(value.bits) << 16); }
inline Bf16 to_bf16(float value) { return {simt::round_to_bf16(value)}; }
inline std::uint32_t pack_bf16(float low, float high) {
  return static_cast<std::uint32_t>(to_bf16(high).bits) << 16 | to_bf16(low).bits;
}
inline float fast_exp2(float x) { return std::exp2(x); }

inline void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1, Site site = Site::current()) {
  simt::mma_bf16(c, a, b0, b1, site);
}
inline void load_matrices(std::uint32_t (&to)[4], const void* row, Site site = Site::current()) {
  simt::load_matrices(to, row, false, site);
}
inline void load_matrices_transposed(std::uint32_t (&to)[4], const void* row, Site site = Site::current()) {
  simt::load_matrices(to, row, true, site);
}
inline void copy_async16(void* to, const void* from, bool valid, Site site = Site::current()) {
  simt::copy_async16(to, from, valid, site);
}
inline void copy_async_commit() { simt::copy_async_commit(); }
template <int groups> void copy_async_wait() { simt::copy_async_wait(groups); }

}  // namespace longwave::device

namespace longwave {

struct Grid {
  std::int64_t x = 1, y = 1, z = 1;
};

// Queues the kernel on `stream`; what it does wrong becomes the stream's error and a report on stderr.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), Grid grid, int threads, std::size_t shared_bytes, cudaStream_t stream,
            Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> arguments;
  };
  auto call = std::make_shared<Call>(Call{kernel, std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)});
  simt::Launch launch;
  launch.kernel = name;
  launch.grid[0] = grid.x, launch.grid[1] = grid.y, launch.grid[2] = grid.z;
  launch.threads = threads;
  launch.shared_bytes = shared_bytes;
  launch.arguments = call;
  launch.argument_bytes = sizeof(Call);
  launch.run = [](const void* data) {
    const auto* own = static_cast<const Call*>(data);
    std::apply(own->kernel, own->arguments);
  };
  simt::enqueue(stream, launch);
}

}  // namespace longwave
