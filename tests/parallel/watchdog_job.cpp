// A job for the watchdog's tests: every rank beats in one phase and meets the others in an all_reduce, again and again, as a
// training loop does. Once there is a file DIRECTORY/stick, rank 2 stays where it is; once there is DIRECTORY/leave, all say
// goodbye, and rank 2 takes its time to end. watchdog_job DIRECTORY PHASE LIMIT_SECONDS
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/stop_request.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/mpi/mpi_environment.h"
#include "parallel/watchdog.h"
#include "tests/parallel/beat_record.h"

namespace longwave {
namespace {

void run(MpiEnvironment& mpi, const std::string& directory, const std::string& phase, double limit) {
  auto world = MpiCommunicator::world();
  File record = File::update(beat_path(directory, mpi.rank()));
  BeatRecord beat;
  beat.pid = getpid();
  std::strncpy(beat.phase, phase.c_str(), sizeof beat.phase - 1);
  beat.beat = 1;
  record.write_at(&beat, sizeof beat, 0);
  world->barrier();
  WatchdogOptions options;
  options.rank = mpi.rank();
  options.hosts = mpi.hosts();
  options.directory = directory;
  options.limits = {limit, limit, limit, limit};
  options.read_beats = [&] { return read_beats(directory, mpi.hosts()); };
  options.on_loss = [&](const LostRank& lost) { write_file_atomically(directory + "/lost", lost.reason + "\n"); };
  Watchdog watchdog(std::move(options));
  const auto exists = [&](const char* name) { return access((directory + name).c_str(), F_OK) == 0 ? 1 : 0; };
  for (;;) {
    while (mpi.rank() == 2 && exists("/stick") != 0) usleep(10000);
    if (all_reduce_value(*world, exists("/leave"), Reduction::max) != 0) break;
    beat.step += 1;
    beat.beat += 1;
    record.write_at(&beat, sizeof beat, 0);
    all_reduce_value(*world, 1.0, Reduction::sum);
    usleep(2000);
  }
  std::strcpy(beat.phase, "end");
  record.write_at(&beat, sizeof beat, 0);
  world->barrier();
  if (mpi.rank() == 2) sleep(2);
  watchdog.stop();
  mpi.finalize();
}

}  // namespace
}  // namespace longwave

int main(int argc, char** argv) {
  longwave::install_stop_handlers();  // the launcher's SIGTERM asks; it does not end the process before the watchdog spoke
  longwave::MpiEnvironment mpi(&argc, &argv);
  try {
    longwave::run(mpi, argv[1], argv[2], std::atof(argv[3]));
  } catch (const longwave::Error& error) {
    std::fprintf(stderr, "watchdog_job: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
