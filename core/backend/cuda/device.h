// The only way our kernels reach the hardware: indices, barriers, warp operations, shared memory, tensor cores, copies.
// Under nvcc these are the CUDA operations of the same meaning; under tests/simt the same names run on the host, checked.
//
// Rules for kernels
// - Blocks are one-dimensional, a multiple of 32 threads. Warp operations are for whole warps: all 32 lanes arrive, at the same
//   line. The same holds for barriers and the whole block. A lane with nothing to do takes part with a neutral value.
// - A block's shared memory is written before it is read; two threads that share a location are separated by a barrier (of
//   the block, or of the warp when they are in one). Warp shuffles do not order memory.
// - launch() starts kernels; pointers handed to it are device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef LONGWAVE_SIMT
#include "tests/simt/device.h"
#else

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <tuple>
#include <utility>

#define LONGWAVE_KERNEL(threads) static __global__ void __launch_bounds__(threads)
#define LONGWAVE_DEVICE __device__ __forceinline__
#define LONGWAVE_UNROLL _Pragma("unroll")
// `Type* name` of `count` elements in the block's shared memory, 16-byte aligned.
#define LONGWAVE_SHARED(Type, name, count)              \
  __shared__ __align__(16) Type name##_memory[(count)]; \
  Type* const name = name##_memory

namespace longwave::device {

LONGWAVE_DEVICE int thread() { return static_cast<int>(threadIdx.x); }
LONGWAVE_DEVICE int threads() { return static_cast<int>(blockDim.x); }
LONGWAVE_DEVICE int block_x() { return static_cast<int>(blockIdx.x); }
LONGWAVE_DEVICE int block_y() { return static_cast<int>(blockIdx.y); }
LONGWAVE_DEVICE int block_z() { return static_cast<int>(blockIdx.z); }
LONGWAVE_DEVICE int grid_x() { return static_cast<int>(gridDim.x); }

LONGWAVE_DEVICE void barrier() { __syncthreads(); }
LONGWAVE_DEVICE void warp_barrier() { __syncwarp(); }

LONGWAVE_DEVICE float shuffle_xor(float value, int lanes) { return __shfl_xor_sync(0xffffffffu, value, lanes); }
LONGWAVE_DEVICE int shuffle_xor(int value, int lanes) { return __shfl_xor_sync(0xffffffffu, value, lanes); }
LONGWAVE_DEVICE double shuffle_xor(double value, int lanes) { return __shfl_xor_sync(0xffffffffu, value, lanes); }
LONGWAVE_DEVICE float shuffle(float value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }
LONGWAVE_DEVICE bool any(bool condition) { return __any_sync(0xffffffffu, condition) != 0; }

// The dynamic shared memory of this block, 16-byte aligned.
LONGWAVE_DEVICE unsigned char* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char longwave_dynamic_shared[];
  return longwave_dynamic_shared;
}

struct alignas(16) Words4 {
  std::uint32_t word[4];
};

// 16 bytes at once, at an address that is a multiple of 16.
LONGWAVE_DEVICE Words4 load16(const void* from) {
  const uint4 value = *static_cast<const uint4*>(from);
  return {{value.x, value.y, value.z, value.w}};
}
LONGWAVE_DEVICE void store16(void* to, const Words4& value) {
  *static_cast<uint4*>(to) = make_uint4(value.word[0], value.word[1], value.word[2], value.word[3]);
}

// bf16 as memory holds it.
struct Bf16 {
  std::uint16_t bits;
};

LONGWAVE_DEVICE float to_float(Bf16 value) { return __uint_as_float(static_cast<std::uint32_t>(value.bits) << 16); }
LONGWAVE_DEVICE Bf16 to_bf16(float value) { return {__bfloat16_as_ushort(__float2bfloat16_rn(value))}; }
LONGWAVE_DEVICE float float_of_bits(std::uint32_t bits) { return __uint_as_float(bits); }
LONGWAVE_DEVICE std::uint32_t bits_of(float value) { return __float_as_uint(value); }
// Two bf16 in a word, `low` in the lower half.
LONGWAVE_DEVICE std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

// 2^x to about 2 units in the last place of fp32; 0 for -infinity.
LONGWAVE_DEVICE float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// c[16, 8] += a[16, 16] b[16, 8], bf16 with fp32 sums, in the register layout of mma.m16n8k16.
LONGWAVE_DEVICE void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8x8 bf16 matrices from shared memory; lane l gives the address of row l % 8 of matrix l / 8.
LONGWAVE_DEVICE void load_matrices(std::uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}
LONGWAVE_DEVICE void load_matrices_transposed(std::uint32_t (&to)[4], const void* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

// Starts a copy of 16 bytes to shared memory; zeros instead of what is at `from` unless `valid`.
LONGWAVE_DEVICE void copy_async16(void* to, const void* from, bool valid) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}
// Closes a group of this thread's copies.
LONGWAVE_DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `groups` of this thread's youngest groups are under way; a barrier then shows them to the block.
template <int groups> LONGWAVE_DEVICE void copy_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory"); }

}  // namespace longwave::device

namespace longwave {

struct Grid {
  std::int64_t x = 1, y = 1, z = 1;
};

// Throws Error unless `result` is success: defined in check.cpp, so that kernels need no headers of the host.
void check_launch(cudaError_t result, const char* kernel);

// Starts `kernel` on `stream`. A grid with a zero extent starts nothing.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), Grid grid, int threads, std::size_t shared_bytes, cudaStream_t stream,
            Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  std::tuple<Parameters...> values(static_cast<Parameters>(arguments)...);
  const auto* function = reinterpret_cast<const void*>(kernel);
  if (shared_bytes > std::size_t{48} << 10) {
    check_launch(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)), name);
  }
  const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z));
  std::apply(
      [&](auto&... value) {
        void* pointers[] = {&value...};
        check_launch(cudaLaunchKernel(function, blocks, dim3(static_cast<unsigned>(threads)), pointers, shared_bytes, stream), name);
      },
      values);
}

}  // namespace longwave

#endif
