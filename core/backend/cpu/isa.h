// Which instruction set the CPU kernels use. The sources in core/backend/cpu/simd are compiled once per instruction set,
// each time into its own namespace longwave::simd::<isa>; a family of kernels is a table of function pointers, and the
// table is chosen once, at run time, by what the processor has.
//
// Rules for those sources, or one build's code ends in another's functions and crashes on an older processor:
// - everything is in longwave::simd::LONGWAVE_ISA, helpers in an anonymous namespace inside it;
// - they include only this header, headers that declare tables, simd/*.inl.h, <cstddef>, <cstdint> and intrinsics:
//   an inline function of any other header may be emitted with AVX-512 and merged by the linker with everyone else's.
//
// A family is wired like this:
//   norm_kernels.h      struct NormKernels { void (*forward)(...); };
//                       LONGWAVE_DECLARE_KERNELS(NormKernels, norm_kernels)   // in namespace longwave
//   simd/norm.cpp       namespace longwave::simd::LONGWAVE_ISA { constinit const NormKernels norm_kernels = {...}; }
//   norm.cpp            LONGWAVE_DEFINE_KERNELS(NormKernels, norm_kernels)    // in namespace longwave
//                       ... norm_kernels().forward(...) ...
#pragma once

#include <cstddef>
#include <cstdint>

namespace longwave {

// baseline is SSE2, which every x86-64 has. amx_bf16 has kernels of its own for attention and matrix products alone.
enum class Isa : int { baseline, avx2, avx512, avx512_bf16, amx_bf16 };

const char* name_of(Isa isa);  // as LONGWAVE_MAX_ISA spells it

// The best one this processor and operating system can run. Linux gives a process the tiles of AMX when it asks, which this does.
Isa processor_isa();

// Parses LONGWAVE_MAX_ISA ("baseline", "avx2", "avx512", "avx512_bf16" or "amx_bf16"; null: no limit). Anything else is a
// config_error.
Isa parse_max_isa(const char* value);

// The smaller of the two, read once, and never more than limit_isa allows. Throws config_error for a bad LONGWAVE_MAX_ISA.
Isa active_isa();

// From here on no more than `most`: what the ranks of a job have in common. Not while other threads compute.
void limit_isa(Isa most);

using Bf16Bits = std::uint16_t;  // memory of a bf16 element, as kernels see it

// A kernel that exists for both activation types is an array in its table, indexed by DType: f32 first, then bf16.
inline constexpr int activation_types = 2;

}  // namespace longwave

#define LONGWAVE_DECLARE_KERNELS(Type, name)                                                  \
  namespace simd::baseline { extern const Type name; }                                        \
  namespace simd::avx2 { extern const Type name; }                                            \
  namespace simd::avx512 { extern const Type name; }                                          \
  namespace simd::avx512_bf16 { extern const Type name; }                                     \
  const Type& name(Isa isa = active_isa());

#define LONGWAVE_DEFINE_KERNELS(Type, name)                                                   \
  const Type& name(Isa isa) {                                                                 \
    switch (isa) {                                                                            \
      case Isa::amx_bf16:                                                                     \
      case Isa::avx512_bf16: return simd::avx512_bf16::name;                                  \
      case Isa::avx512: return simd::avx512::name;                                            \
      case Isa::avx2: return simd::avx2::name;                                                \
      case Isa::baseline: break;                                                              \
    }                                                                                         \
    return simd::baseline::name;                                                              \
  }
