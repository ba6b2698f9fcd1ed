#include "core/backend/cpu/amx_permission.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace longwave {

// CPUID leaf 7, and the permission of Linux 5.16 (Documentation/x86/xstate.rst).
bool has_amx() {
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;
  constexpr long request_permission = 0x1023, tile_data = 18;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & amx_bf16) == 0 || (edx & amx_tile) == 0) return false;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace longwave
