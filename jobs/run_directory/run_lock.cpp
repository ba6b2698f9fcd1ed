#include "jobs/run_directory/run_lock.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/host.h"
#include "core/base/json.h"
#include "core/base/timestamp.h"

namespace longwave {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Overwritten in place at this length, so that advancing the count needs no space on a full disk.
constexpr std::size_t record_bytes = 512;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

LockRecord own_record() {
  LockRecord record;
  record.pid = ::getpid();
  record.host = host_name();
  record.since = timestamp();
  record.slurm_job = environment("SLURM_JOB_ID");
  record.slurm_restart = std::atoi(environment("SLURM_RESTART_COUNT").c_str());
  return record;
}

LockRecord parse_record(const Json& json, const std::string& path) {
  LockRecord record;
  read_fields(json, path, [&](const Json& fields) {
    fields.at("pid").get_to(record.pid);
    fields.at("host").get_to(record.host);
    fields.at("since").get_to(record.since);
    fields.at("slurm_job").get_to(record.slurm_job);
    fields.at("slurm_restart").get_to(record.slurm_restart);
    fields.at("beat").get_to(record.beat);
  });
  return record;
}

// Nothing when the last holder left in good order, or died before it wrote its record. A record caught in the middle of being
// overwritten, or emptied between two calls, is read again.
std::optional<LockRecord> read_record(const File& file) {
  for (int tries = 0; tries < 5; ++tries) {
    if (file.size() < record_bytes) return std::nullopt;
    try {
      std::string text(record_bytes, '\0');
      file.read_at(text.data(), text.size(), 0);
      return parse_record(parse_json(text, file.path()), file.path());
    } catch (const Error& error) {
      if (error.code() != ExitCode::data) throw;
    }
  }
  return std::nullopt;
}

bool is_earlier_attempt(const LockRecord& holder, const LockRecord& own) {
  return !own.slurm_job.empty() && holder.slurm_job == own.slurm_job && holder.slurm_restart < own.slurm_restart;
}

[[noreturn]] void refuse(const std::string& run_directory, const std::optional<LockRecord>& holder) {
  if (!holder) throw config_error("run directory {} is in use by another process", run_directory);
  throw config_error("run directory {} is in use by process {} on host {} since {}; wait for it or choose another run.name",
                     run_directory, holder->pid, holder->host, holder->since);
}

// A run directory that failed to come into being is removed with its lock: whoever waited holds a file without a name.
bool has_its_name(const File& file) {
  struct stat open_file {}, named {};
  return ::fstat(file.descriptor(), &open_file) == 0 && ::stat(file.path().c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

ByteLock take(const std::string& run_directory, const LockRecord& own, const RunLock::Patience& patience) {
  const auto limit = Clock::now() + patience.requeued;
  for (int without_record = 0;;) {
    ByteLock lock = ByteLock::try_lock(File::update(run_directory + "/lock"), ByteLock::run_byte);
    if (lock.held()) {
      if (has_its_name(lock.file())) return lock;
      continue;
    }
    const std::optional<LockRecord> holder = read_record(lock.file());
    // A holder without a record has just taken the lock or is about to give it back.
    without_record = holder ? 0 : without_record + 1;
    const bool worth_waiting = holder ? is_earlier_attempt(*holder, own) && Clock::now() < limit : without_record < 10;
    if (!worth_waiting) refuse(run_directory, holder);
    std::this_thread::sleep_for(100ms);
  }
}

// The kernel gave us the lock. On the same host that settles it; from another one the lock may not have been visible.
void make_sure_holder_is_dead(const std::string& run_directory, ByteLock& lock, const LockRecord& own,
                              const RunLock::Patience& patience) {
  const std::optional<LockRecord> holder = read_record(lock.file());
  if (!holder || is_earlier_attempt(*holder, own) || (lock.is_supported() && holder->host == own.host)) return;
  std::fprintf(stderr, "longwave: %s was left by process %d on host %s; watching up to %lld s whether it still runs\n",
               run_directory.c_str(), holder->pid, holder->host.c_str(), static_cast<long long>(patience.stale.count() / 1000));
  const auto limit = Clock::now() + patience.stale;
  while (Clock::now() < limit) {
    std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(patience.beat, 500ms));
    const std::optional<LockRecord> now = read_record(lock.file());
    if (!now) return;  // it left in good order meanwhile
    if (now->beat != holder->beat || now->pid != holder->pid) refuse(run_directory, now);
  }
}

}  // namespace

std::optional<LockRecord> read_run_lock(const std::string& run_directory) {
  const std::string path = run_directory + "/lock";
  if (::access(path.c_str(), F_OK) != 0) return std::nullopt;
  return read_record(File::open(path));
}

RunLock::RunLock(const std::string& run_directory, Patience patience)
    : lock_(take(run_directory, own_record(), patience)), record_(own_record()) {
  make_sure_holder_is_dead(run_directory, lock_, record_, patience);
  try {
    write_record();
  } catch (const Error&) {
    if (!read_record(lock_.file())) ::unlink(lock_.file().path().c_str());  // nothing half made on a full disk
    throw;
  }
  beating_ = std::thread([this, interval = patience.beat] { keep_beating(interval); });
}

RunLock::~RunLock() {
  {
    const std::lock_guard guard(mutex_);
    leaving_ = true;
  }
  wake_.notify_one();
  beating_.join();
  try {
    lock_.file().truncate(0);
  } catch (const Error&) {  // the next one finds a record whose count stands still
  }
}

void RunLock::write_record() {
  Json json;
  json["pid"] = record_.pid;
  json["host"] = record_.host;
  json["since"] = record_.since;
  json["slurm_job"] = record_.slurm_job;
  json["slurm_restart"] = record_.slurm_restart;
  json["beat"] = record_.beat;
  std::string text = to_line(json);
  LONGWAVE_CHECK(text.size() < record_bytes);
  text.resize(record_bytes - 1, ' ');
  text += '\n';
  lock_.file().write_at(text.data(), text.size(), 0);
}

void RunLock::keep_beating(std::chrono::milliseconds interval) {
  std::unique_lock guard(mutex_);
  while (!wake_.wait_for(guard, interval, [this] { return leaving_; })) {
    ++record_.beat;
    try {
      write_record();
    } catch (const Error&) {  // a file system in trouble shows in the writes that matter
    }
  }
}

}  // namespace longwave
