#include "core/base/stop_request.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "core/base/file.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/temporary_directory.h"

namespace longwave {
namespace {

// Handlers belong to a process, so each case has one of its own; returns how it ended.
template <class Body>
int in_a_process(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(StopRequest, IsNoneBeforeASignal) {
  const int status = in_a_process([] {
    install_stop_handlers();
    return stop_requested();
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(StopRequest, RemembersEachSignalAndLetsTheProcessGoOn) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    const int status = in_a_process([signal] {
      install_stop_handlers();
      ::raise(signal);
      return stop_requested();
    });
    EXPECT_TRUE(WIFEXITED(status)) << signal_name(signal);
    EXPECT_EQ(WEXITSTATUS(status), signal);
  }
}

TEST(StopRequest, SurvivesManyTermsButNotASecondInterrupt) {
  const int patient = in_a_process([] {
    install_stop_handlers();
    for (int i = 0; i < 5; ++i) ::raise(SIGTERM);
    return stop_requested();
  });
  EXPECT_EQ(WEXITSTATUS(patient), SIGTERM);
  const int ended = in_a_process([] {
    install_stop_handlers();
    ::raise(SIGINT);
    ::raise(SIGINT);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(ended));
  EXPECT_EQ(WTERMSIG(ended), SIGINT);
}

TEST(StopRequest, MakesAFileSizeLimitAnErrorOfTheWrite) {
  TemporaryDirectory folder;
  const int status = in_a_process([&] {
    install_stop_handlers();
    const rlimit limit{100, 100};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    try {
      write_file_atomically(folder / "a", std::string(200, 'x'));
    } catch (const Error& error) {
      return static_cast<int>(error.code());
    }
    return 2;
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ExitCode::io));
}

TEST(StopRequest, NamesItsSignals) { EXPECT_STREQ(signal_name(SIGTERM), "SIGTERM"); }

}  // namespace
}  // namespace longwave
