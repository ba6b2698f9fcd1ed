// What the kernel says of another process of this host.
#pragma once

namespace longwave {

// The state letter of /proc/PID/stat ('R', 'S', 'T', ...); 'X' when there is no such process or only its remains.
char process_state(int pid);

inline bool is_stopped(char state) { return state == 'T' || state == 't'; }

}  // namespace longwave
