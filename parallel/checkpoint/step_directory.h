// checkpoints/ of a run: a folder step-00001000 a checkpoint, complete whenever it has that name. What is being written is
// called step-00001000.partial, what is being removed step-00001000.removed, and what a resume has found bad or gone back
// behind step-00001000.aside; nobody reads those.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longwave {

std::string step_name(std::int64_t step);  // "step-00001000"
std::optional<std::int64_t> parse_step_name(std::string_view name);
std::string rank_file_name(int rank);      // "rank-00000.safetensors"

// Steps in a checkpoints folder, ascending; none when there is no such folder.
std::vector<std::int64_t> list_steps(const std::string& checkpoints);

// Makes an empty step-N.partial and returns its path.
std::string begin_partial(const std::string& checkpoints, std::int64_t step);
// The moment a checkpoint begins to exist: step-N.partial, all in it on disk, becomes step-N, durably.
void commit_partial(const std::string& checkpoints, std::int64_t step);
void remove_partial(const std::string& checkpoints, std::int64_t step);
// Left by processes that were killed while they wrote or removed.
void remove_leftovers(const std::string& checkpoints);

// checkpoints/latest names the newest step, for people and scripts. Resuming does not trust it.
void write_latest(const std::string& checkpoints, std::int64_t step);

// Removes all but the newest `keep` steps and, when `keep_every` is not 0, its multiples. A folder loses its name before
// its files, so that what is left after a kill cannot be taken for a checkpoint. Returns the steps removed.
std::vector<std::int64_t> apply_retention(const std::string& checkpoints, std::int64_t keep, std::int64_t keep_every);
// Takes a step out of the way without removing it; returns its new path.
std::string set_aside(const std::string& checkpoints, std::int64_t step);

}  // namespace longwave
