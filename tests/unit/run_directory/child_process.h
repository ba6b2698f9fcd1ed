// A process that runs `body`, says when it has, and then stays until it is ended: for what one process must see of another.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace longwave {

class ChildProcess {
 public:
  // `body` returns an object that lives as long as the child; the child leaves by itself after `seconds`.
  template <class Body>
  explicit ChildProcess(Body body, double seconds = 60) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      {
        const auto held = body();
        if (::write(ready[1], "r", 1) != 1) ::_exit(1);
        ::usleep(static_cast<useconds_t>(seconds * 1e6));
      }
      ::_exit(0);
    }
    char byte = 0;
    ::close(ready[1]);
    EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "the child ended before it was ready";
    ::close(ready[0]);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() {
    if (pid_ > 0) kill();
  }

  pid_t pid() const { return pid_; }
  void kill() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

}  // namespace longwave
