#include "jobs/run_list/crash_loop.h"

#include <chrono>
#include <filesystem>
#include <optional>

#include "core/base/error.h"
#include "core/base/timestamp.h"
#include "jobs/run_directory/provenance.h"
#include "jobs/run_directory/status.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

// When the newest complete checkpoint was committed, "" without one: its manifest is the last file written.
std::string newest_checkpoint_time(const std::string& run_directory) {
  const fs::path folder = run_directory + "/checkpoints";
  std::optional<fs::file_time_type> newest;
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::error_code missing;
      const fs::file_time_type time = fs::last_write_time(entry.path() / "manifest.json", missing);
      if (!missing && entry.path().extension() != ".partial" && (!newest || time > *newest)) newest = time;
    }
  }
  if (!newest) return "";
  return timestamp(std::chrono::time_point_cast<std::chrono::system_clock::duration>(std::chrono::file_clock::to_sys(*newest)));
}

}  // namespace

CrashLoop find_crash_loop(const std::string& run_directory, const std::string& slurm_job, int restarts) {
  CrashLoop loop;
  const std::string path = run_directory + "/provenance.json";
  if (!fs::exists(path)) {
    loop.attempts = restarts;
    if (loop.attempts >= attempts_without_progress) {
      loop.reason = fmt::format("Slurm job {} was started {} times and never got as far as {}; not started again", slurm_job,
                                loop.attempts, run_directory);
    }
    return loop;
  }
  const std::string last_checkpoint = newest_checkpoint_time(run_directory);
  read_fields(read_provenance(run_directory), path, [&](const Json& json) {
    for (const Json& attempt : json.at("attempts")) {
      const Json job = attempt.value("slurm", Json::object());
      const bool ours = job.is_object() && job.value("job_id", std::string()) == slurm_job;
      if (ours && attempt.at("time").get<std::string>() > last_checkpoint) ++loop.attempts;
    }
  });
  if (loop.attempts >= attempts_without_progress) {
    const std::optional<Status> status = read_status(run_directory);
    const std::string last = status && !status->reason.empty() ? status->reason : "no reason known";
    loop.reason = fmt::format(
        "{} attempts of Slurm job {} made no new checkpoint; not started again. The last one ended with: {}", loop.attempts,
        slurm_job, last);
  }
  return loop;
}

void stop_crash_loop(const std::string& run_directory, const CrashLoop& loop) {
  std::optional<Status> status = read_status(run_directory);
  if (!status) return;
  status->state = RunState::failed;
  status->exit_code = static_cast<int>(ExitCode::lost);
  status->reason = loop.reason;
  // The failure of an attempt stays for good; this is the verdict on the one that is not made.
  ++status->attempt;
  write_status(run_directory, *status);
}

}  // namespace longwave
