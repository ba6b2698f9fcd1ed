// status.json: where a run stands, for people, `run list`, reports and requeue scripts. Replaced atomically, so a reader sees
// the old or the new one. Rank 0 writes it in the ordinary course; a rank that fails, or a watchdog, writes the failure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/error.h"

namespace longwave {

enum class RunState { starting, running, stopped, done, failed };

struct Status {
  RunState state = RunState::starting;
  std::int64_t step = 0;   // updates made
  std::int64_t steps = 0;  // updates wanted
  int attempt = 1;         // counts the processes that entered this directory
  std::string checkpoint;  // the last complete one, "" before the first
  std::optional<int> exit_code;  // set with stopped, done and failed
  std::string reason;      // one line, with stopped and failed
  int rank = 0;            // the rank this speaks of: the one that failed
  std::string host;        // its host
  std::string phase;       // what it was doing: "start", "train", "evaluate", "save", ...
  std::string time;        // of writing
};

const char* name_of(RunState state);

// Nothing when there is no status.json; data_error when it is malformed.
std::optional<Status> read_status(const std::string& run_directory);

// Fills in `time`. Within an attempt the first failure stays: it is the cause, later ones are its consequences, and rank 0 may
// not know of it yet. So a status of the same attempt does not replace `failed`; returns whether it was written.
bool write_status(const std::string& run_directory, Status status);

// Where a rank failed; it may be another one than the one that says so.
struct FailurePlace {
  int rank = 0;
  std::string host;
  std::string phase;
  std::int64_t step = 0;
};

// For any rank, on its way out: writes state failed with what status.json knew before. Never throws and never waits long,
// as it runs where something else has already gone wrong.
void record_failure(const std::string& run_directory, const FailurePlace& place, ExitCode exit_code,
                    const std::string& reason) noexcept;

// What the batch script exits with, and this records, when the kernel killed a rank for its memory: KILL, as shells count it.
inline constexpr int out_of_memory_code = 137;

// For the batch script, when all ranks have ended: the cause of that, which none of them could know. It stands before what they
// said themselves. Nothing happens where there is no status.json.
void record_out_of_memory(const std::string& run_directory, const std::string& cause);

}  // namespace longwave
