// Whether this process may use AMX tiles. On its own, so that tests/tiles can stand in for a processor that has them.
#pragma once

namespace longwave {

// The processor has AMX-TILE and AMX-BF16, and the kernel gives this process the tiles, for which this asks it.
bool has_amx();

}  // namespace longwave
