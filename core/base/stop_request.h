// A wish to stop, from a person (SIGINT), the system (SIGTERM) or Slurm ahead of the time limit (SIGUSR1). The handler only
// stores the signal's number; the training loop asks at the end of a step, and the ranks then decide together.
#pragma once

namespace longwave {

// Call once, before threads start. The first SIGINT gives SIGINT its default action back, so a second one ends the process at
// once. Writing past a file size limit is made an error of the write (EFBIG) instead of a deadly signal.
void install_stop_handlers();

// The number of the latest of these signals, 0 while there was none.
int stop_requested();

const char* signal_name(int signal);  // "SIGTERM"

}  // namespace longwave
