// Real jobs of four ranks under the real launcher, of which one is killed or stopped.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/base/file.h"
#include "tests/parallel/beat_record.h"
#include "tests/unit/temporary_directory.h"

namespace longwave {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr int ranks = 4;
constexpr int victim = 2;

// watchdog_job under mpirun, its stderr in a file of `directory`.
class Job {
 public:
  Job(const std::string& directory, const std::string& phase, const std::string& limit) : directory_(directory) {
    std::vector<std::string> words = {LONGWAVE_MPIRUN,       "-n",      std::to_string(ranks),
                                      LONGWAVE_WATCHDOG_JOB, directory, phase,
                                      limit};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, error_path().c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    EXPECT_EQ(posix_spawn(&pid_, LONGWAVE_MPIRUN, &actions, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Job() {
    if (!ended_) kill(pid_, SIGKILL);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Until every rank has made `beats` beats; the victim's process.
  int wait_until_running(std::uint64_t beats) const {
    for (;;) {
      const std::vector<RankBeat> records = read_beats(directory_, std::vector<std::string>(ranks));
      std::size_t ready = 0;
      for (const RankBeat& record : records) ready += record.beat >= beats ? 1 : 0;
      if (ready == ranks) return records[victim].pid;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  int wait_for_end() {
    int status = 0;
    waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string errors() const { return read_file(error_path()); }

 private:
  std::string error_path() const { return directory_ + "/stderr"; }

  std::string directory_;
  pid_t pid_ = 0;
  bool ended_ = false;
};

class WatchdogOfAJob : public testing::TestWithParam<std::string> {
 protected:
  void expect_victim_named(const Job& job, const std::string& what) const {
    const std::string reason = read_file(directory_.path() + "/lost");
    EXPECT_NE(reason.find("rank 2 on "), std::string::npos) << reason;
    EXPECT_NE(reason.find(what), std::string::npos) << reason;
    EXPECT_NE(reason.find("in phase " + GetParam() + " at step "), std::string::npos) << reason;
    EXPECT_NE(job.errors().find("longwave: rank 2 on "), std::string::npos) << job.errors();
  }

  TemporaryDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(Phases, WatchdogOfAJob, testing::Values("start", "train", "evaluate"),
                         [](const auto& phase) { return phase.param; });

TEST_P(WatchdogOfAJob, NamesAKilledRankThoughTheLauncherEndsTheOthers) {
  Job job(directory_.path(), GetParam(), "60");
  kill(job.wait_until_running(20), SIGKILL);
  EXPECT_NE(job.wait_for_end(), 0);
  expect_victim_named(job, "has ended");
}

TEST_P(WatchdogOfAJob, EndsAJobWithAStoppedRankWithinTheLimit) {
  Job job(directory_.path(), GetParam(), "2");
  kill(job.wait_until_running(20), SIGSTOP);
  const auto stopped = std::chrono::steady_clock::now();
  EXPECT_EQ(job.wait_for_end(), 69);
  // The limit, a poll, the turns, and what the launcher takes to end a stopped process.
  EXPECT_LT(Seconds(std::chrono::steady_clock::now() - stopped).count(), 2 + 10);
  expect_victim_named(job, "is stopped and silent");
}

TEST_P(WatchdogOfAJob, BlamesTheRankThatIsStuckAndNotThoseThatWaitForIt) {
  Job job(directory_.path(), GetParam(), "2");
  job.wait_until_running(20);
  write_file_atomically(directory_.path() + "/stick", "");
  EXPECT_EQ(job.wait_for_end(), 69);
  expect_victim_named(job, "is silent for");
}

TEST_P(WatchdogOfAJob, LetsAJobEndThatSaysGoodbye) {
  Job job(directory_.path(), GetParam(), "1");
  job.wait_until_running(20);
  write_file_atomically(directory_.path() + "/leave", "");
  EXPECT_EQ(job.wait_for_end(), 0) << job.errors();
  EXPECT_EQ(job.errors(), "");
}

}  // namespace
}  // namespace longwave
