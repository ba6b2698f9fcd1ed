// Where the ranks of watchdog_job are, as files that the test reads too.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "parallel/watchdog.h"

namespace longwave {

struct BeatRecord {
  std::int64_t pid = 0;
  std::int64_t step = 0;
  std::uint64_t beat = 0;
  char phase[16] = {};
};

inline std::string beat_path(const std::string& directory, int rank) { return directory + "/beat-" + std::to_string(rank); }

inline std::vector<RankBeat> read_beats(const std::string& directory, const std::vector<std::string>& hosts) {
  std::vector<RankBeat> beats;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const std::string path = beat_path(directory, static_cast<int>(rank));
    if (access(path.c_str(), R_OK) != 0) continue;
    const File file = File::open(path);
    BeatRecord record;
    if (file.size() < sizeof record) continue;
    file.read_at(&record, sizeof record, 0);
    beats.push_back({static_cast<int>(rank), static_cast<int>(record.pid), hosts[rank], record.phase, record.step, record.beat});
  }
  return beats;
}

}  // namespace longwave
