#include "core/base/stop_request.h"

#include <signal.h>

#include <atomic>

#include "core/base/error.h"

namespace longwave {
namespace {

// Lock-free, so it may be written by a handler on any thread and read by another.
std::atomic<int> requested{0};
static_assert(std::atomic<int>::is_always_lock_free);

void remember(int signal) { requested.store(signal, std::memory_order_relaxed); }

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  LONGWAVE_SYSTEM("sigaction", signal_name(signal), ::sigaction(signal, &action, nullptr));
}

}  // namespace

void install_stop_handlers() {
  handle(SIGINT, remember, SA_RESTART | static_cast<int>(SA_RESETHAND));
  handle(SIGTERM, remember, SA_RESTART);
  handle(SIGUSR1, remember, SA_RESTART);
  handle(SIGXFSZ, SIG_IGN, 0);
}

int stop_requested() { return requested.load(std::memory_order_relaxed); }

const char* signal_name(int signal) {
  switch (signal) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    case SIGXFSZ: return "SIGXFSZ";
    default: return "a signal";
  }
}

}  // namespace longwave
