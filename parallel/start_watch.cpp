#include "parallel/start_watch.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/host.h"
#include "parallel/process_state.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

constexpr std::time_t stale_seconds = 3600;
constexpr std::chrono::milliseconds interval{200};
constexpr std::chrono::milliseconds turn_length{200};
// A job that is woken as a whole wakes rank by rank.
constexpr std::chrono::milliseconds second_look{1000};

std::optional<int> number_in(std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    if (const char* value = std::getenv(variable)) return std::atoi(value);
  }
  return std::nullopt;
}

std::string record_path(const std::string& folder, int rank) { return fmt::format("{}/rank-{:05}", folder, rank); }

// 0: no record, or not yet a whole one.
int recorded_pid(const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) return 0;
  const File file = File::open(path);
  std::int32_t pid = 0;
  if (file.size() == sizeof pid) file.read_at(&pid, sizeof pid, 0);
  return pid;
}

// A launch that is killed while it starts leaves its folder behind. It is removed when all its processes are gone and it is an hour
// old, so that nobody is just making it. What cannot be removed, another start may.
void remove_stale_records(const std::string& prefix) {
  std::error_code ignored;
  for (const fs::directory_entry& folder : fs::directory_iterator(temporary_folder(), ignored)) {
    struct stat status {};
    if (!folder.path().filename().string().starts_with(prefix) || lstat(folder.path().c_str(), &status) != 0) continue;
    if (!S_ISDIR(status.st_mode) || status.st_uid != getuid() || std::time(nullptr) - status.st_mtime < stale_seconds) continue;
    for (const fs::directory_entry& record : fs::directory_iterator(folder.path(), ignored)) {
      try {
        const int pid = recorded_pid(record.path());
        if (pid == 0 || process_state(pid) == 'X') unlink(record.path().c_str());
      } catch (const Error&) {
        // Just removed by another rank.
      }
    }
    rmdir(folder.path().c_str());  // stays while a process has its record there
  }
}

}  // namespace

std::optional<Launch> Launch::from_environment() {
  const char* name_space = std::getenv("PMIX_NAMESPACE");
  const auto rank = number_in({"OMPI_COMM_WORLD_RANK", "PMIX_RANK"});
  const auto size = number_in({"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"});
  if (name_space == nullptr || !rank || !size || *size <= 1) return std::nullopt;
  return Launch{name_space, *rank, *size};
}

StartWatch::StartWatch(Launch launch, double limit) : launch_(std::move(launch)), limit_(limit) {
  const std::string prefix = fmt::format("longwave-start-{}-", getuid());
  remove_stale_records(prefix);
  folder_ = fmt::format("{}/{}{}", temporary_folder(), prefix, launch_.id);
  record_path_ = record_path(folder_, launch_.rank);
  try {
    make_directories(folder_);
    File record = File::create(record_path_);
    const std::int32_t pid = getpid();
    record.write_at(&pid, sizeof pid, 0);
  } catch (const Error& error) {
    fmt::print(stderr, "longwave: rank {}: {}; ranks do not watch each other while the job starts\n", launch_.rank, error.what());
    return;
  }
  thread_ = std::thread([this] { watch(); });
}

StartWatch::~StartWatch() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
  unlink(record_path_.c_str());
  rmdir(folder_.c_str());  // by the last one; the others find it in use
}

void StartWatch::watch() {
  // Signals are for the main thread.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);

  using Clock = std::chrono::steady_clock;
  const auto wait = [this](std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return wake_.wait_for(lock, time, [this] { return stopping_; });
  };
  double waited = 0;
  Clock::time_point before = Clock::now();
  while (!wait(interval)) {
    const Clock::time_point now = Clock::now();
    // Slurm suspends and resumes whole jobs: time in which this process did not run does not count.
    waited += std::min(std::chrono::duration<double>(now - before).count(), 1.0);
    before = now;
    if (waited < limit_) continue;
    const std::string lost = find_lost();
    // The ranks take turns, so that one line is printed and not one a rank.
    if (lost.empty() || wait(second_look + std::min(launch_.rank, 10) * turn_length)) continue;
    if (find_lost() == lost) end_job(lost);
  }
}

std::string StartWatch::find_lost() const {
  try {
    for (int rank = 0; rank < launch_.size; ++rank) {
      if (rank == launch_.rank) continue;
      const int pid = recorded_pid(record_path(folder_, rank));
      if (pid != 0 && is_stopped(process_state(pid))) {
        return fmt::format("rank {} on {} (process {}) is stopped", rank, host_name(), pid);
      }
    }
  } catch (const Error&) {
    // A record that is just being written; the next look reads it.
  }
  return "";
}

void StartWatch::end_job(const std::string& lost) const {
  fmt::print(stderr, "longwave: {} in phase start, before there is a run directory, limit {:.0f} s; the job ends (seen by rank "
                     "{}). Requeue it\n", lost, limit_, launch_.rank);
  std::fflush(stderr);
  // No destructors and no MPI: the main thread is inside MPI, waiting for a rank that will not answer.
  _exit(static_cast<int>(ExitCode::lost));
}

}  // namespace longwave
