// AMX tiles in software, included ahead of everything else in the sources of core/backend/cpu/simd/amx: the intrinsics they use
// become calls of these functions, so that a processor with AVX512-BF16 alone computes what one with AMX would. Others of the
// intrinsics stay as they are, and end the program there.
#pragma once

#include <cstddef>
#include <immintrin.h>

namespace longwave::emulated_tiles {

// Names of Intel's Software Developer's Manual, volume 2. All but load_configuration and release end the program where no
// configuration is loaded, as the processor would.
void load_configuration(const void* configuration);  // LDTILECFG: only the one with eight tiles of 16 rows of 64 bytes
void release();                                      // TILERELEASE
void zero(int tile);                                 // TILEZERO
void load(int tile, const void* from, std::size_t stride);  // TILELOADD; bytes from row to row
void store(int tile, void* to, std::size_t stride);         // TILESTORED
void multiply(int sums, int left, int right);               // TDPBF16PS, with denormal numbers kept

std::size_t products();  // how many this thread has multiplied

}  // namespace longwave::emulated_tiles

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(configuration) ::longwave::emulated_tiles::load_configuration(configuration)
#define _tile_release() ::longwave::emulated_tiles::release()
#define _tile_zero(tile) ::longwave::emulated_tiles::zero(tile)
#define _tile_loadd(tile, from, stride) ::longwave::emulated_tiles::load(tile, from, stride)
#define _tile_stream_loadd(tile, from, stride) ::longwave::emulated_tiles::load(tile, from, stride)
#define _tile_stored(tile, to, stride) ::longwave::emulated_tiles::store(tile, to, stride)
#define _tile_dpbf16ps(sums, left, right) ::longwave::emulated_tiles::multiply(sums, left, right)
