#include "core/backend/cpu/isa.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/backend/cpu/amx_permission.h"
#include "core/base/error.h"

namespace longwave {

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::baseline: return "baseline";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::avx512_bf16: return "avx512_bf16";
    case Isa::amx_bf16: return "amx_bf16";
  }
  return "?";
}

Isa processor_isa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) return Isa::baseline;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl")) {
    return Isa::avx2;
  }
  if (!__builtin_cpu_supports("avx512bf16")) return Isa::avx512;
  return has_amx() ? Isa::amx_bf16 : Isa::avx512_bf16;
}

Isa parse_max_isa(const char* value) {
  if (value == nullptr) return Isa::amx_bf16;
  for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx_bf16}) {
    if (std::string_view(value) == name_of(isa)) return isa;
  }
  throw config_error("LONGWAVE_MAX_ISA={}: not an instruction set; use baseline, avx2, avx512, avx512_bf16 or amx_bf16", value);
}

namespace {

Isa& chosen_isa() {
  static Isa isa = std::min(processor_isa(), parse_max_isa(std::getenv("LONGWAVE_MAX_ISA")));
  return isa;
}

}  // namespace

Isa active_isa() { return chosen_isa(); }

void limit_isa(Isa most) { chosen_isa() = std::min(chosen_isa(), most); }

}  // namespace longwave
