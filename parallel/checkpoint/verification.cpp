#include "parallel/checkpoint/verification.h"

#include "parallel/agreement.h"
#include "parallel/checkpoint/step_directory.h"

namespace longwave {

std::unique_ptr<CheckpointReader> open_verified(const std::string& folder, Communicator& control) {
  std::unique_ptr<CheckpointReader> reader;
  together(control, [&] {
    reader = std::make_unique<CheckpointReader>(folder);
    if (control.rank() == 0) reader->check_sizes();
  });
  together(control, [&] {
    const auto ranks = static_cast<std::size_t>(control.size());
    for (auto file = static_cast<std::size_t>(control.rank()); file < reader->manifest().files.size(); file += ranks) {
      reader->verify(file);
    }
  });
  return reader;
}

FoundCheckpoint find_checkpoint(const std::string& checkpoints, std::vector<std::int64_t> steps, Communicator& control) {
  auto count = static_cast<std::int64_t>(steps.size());
  control.broadcast(&count, 1, Element::i64, 0);
  steps.resize(static_cast<std::size_t>(count));
  if (count > 0) control.broadcast(steps.data(), count, Element::i64, 0);
  FoundCheckpoint found;
  for (const std::int64_t step : steps) {
    try {
      found.reader = open_verified(checkpoints + "/" + step_name(step), control);
      return found;
    } catch (const SharedError& error) {
      // A file that cannot be read today (EIO, ESTALE) may be good tomorrow, but not now.
      if (error.code() != ExitCode::data && error.code() != ExitCode::io) throw;
      found.skipped.push_back(error.what());
      found.skipped_steps.push_back(step);
    }
  }
  return found;
}

}  // namespace longwave
