#include "parallel/checkpoint/checkpointer.h"

#include "core/base/error.h"
#include "core/base/stop_watch.h"
#include "core/base/timestamp.h"
#include "parallel/checkpoint/step_directory.h"

namespace longwave {
namespace {

constexpr std::uint64_t manifest_allowance = std::uint64_t{1} << 20;  // for headers and the manifest, in the space asked for
constexpr int gather_tag = 17;

// Like raise_together, but hands the failure over.
std::optional<SharedError> share(Communicator& control, const Failure& failure) {
  try {
    raise_together(control, failure);
  } catch (const SharedError& error) {
    return error;
  }
  return std::nullopt;
}

template <class T>
bool running(const std::future<T>& work) {
  return work.valid() && work.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

}  // namespace

void require_free_space(const std::string& folder, std::uint64_t bytes) {
  if (const std::uint64_t free = free_bytes(folder); free < bytes) {
    throw io_error("{}: a checkpoint needs {} MB, {} MB are free; free some space or lower checkpoint.keep", folder,
                   (bytes >> 20) + 1, free >> 20);
  }
}

Checkpointer::Checkpointer(CheckpointerOptions options, Snapshot snapshot, Communicator& control, MeshShape mesh)
    : options_(std::move(options)), snapshot_(std::move(snapshot)), control_(control), mesh_(mesh) {
  std::int64_t own = 0;
  for (const SnapshotSlice& slice : snapshot_.slices()) own += static_cast<std::int64_t>(slice.bytes);
  total_bytes_ = static_cast<std::uint64_t>(all_reduce_value(control_, own, Reduction::sum));
}

void Checkpointer::prepare_folder() {
  if (!first()) return;
  make_directories(options_.folder);
  require_free_space(options_.folder, total_bytes_ + manifest_allowance);
  begin_partial(options_.folder, facts_.step);
}

std::optional<SaveResult> Checkpointer::start(CheckpointFacts facts) {
  LONGWAVE_CHECK(!in_flight(), "step {} is still being saved", facts_.step);
  started_ = Clock::now();
  stall_seconds_ = 0;
  facts_ = std::move(facts);
  partial_ = options_.folder + "/" + step_name(facts_.step) + ".partial";
  std::optional<SharedError> failure;
  {
    const StopWatch watch(stall_seconds_);
    failure = share(control_, capture([&] {
      prepare_folder();
      snapshot_.capture();
    }));
  }
  if (failure) return end(std::move(failure));
  stage_ = Stage::writing;
  writing_ = std::async(std::launch::async,
                        [this] { return write_rank_file(partial_, control_.rank(), snapshot_, options_.verify); });
  if (options_.async) return std::nullopt;
  return finish();
}

bool Checkpointer::busy() const { return running(writing_) || running(committing_); }

std::optional<SaveResult> Checkpointer::advance() {
  LONGWAVE_CHECK(in_flight(), "nothing is being saved");
  std::optional<SaveResult> result;
  {
    const StopWatch watch(stall_seconds_);
    result = stage_ == Stage::writing ? end_writing() : end_committing();
  }
  if (result) result->stall_seconds = stall_seconds_;
  return result;
}

SaveResult Checkpointer::finish() {
  std::optional<SaveResult> result;
  while (!result) result = advance();
  return *result;
}

std::optional<SaveResult> Checkpointer::end_writing() {
  std::optional<RankFile> own;
  std::optional<SharedError> failure = share(control_, capture([&] { own = writing_.get(); }));
  if (failure) return end(std::move(failure));
  const Manifest manifest = gather_manifest(own);
  stage_ = Stage::committing;
  if (first()) committing_ = std::async(std::launch::async, [this, manifest] { return commit(manifest); });
  return std::nullopt;
}

Manifest Checkpointer::gather_manifest(const std::optional<RankFile>& own) {
  std::string text = to_text(own);
  auto size = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(control_.size()));
  control_.all_gather(&size, sizes.data(), 1, Element::i64);
  if (!first()) {
    if (size > 0) control_.send(text.data(), size, Element::byte, 0, gather_tag);
    return {};
  }
  Manifest manifest{facts_, timestamp(), mesh_, {}, snapshot_.tensors()};
  for (int rank = 0; rank < control_.size(); ++rank) {
    size = sizes[static_cast<std::size_t>(rank)];
    if (size == 0) continue;
    if (rank > 0) {
      text.resize(static_cast<std::size_t>(size));
      control_.recv(text.data(), size, Element::byte, rank, gather_tag);
    }
    const std::optional<RankFile> written = rank_file_from_text(text);
    for (auto [tensor, slice] : written->slices) {
      slice.file = manifest.files.size();
      manifest.tensors.at(tensor).slices.push_back(slice);
    }
    manifest.files.push_back(written->file);
  }
  return manifest;
}

Checkpointer::Commit Checkpointer::commit(const Manifest& manifest) const {
  const std::string path = partial_ + "/" + manifest_name;
  const std::string text = format_manifest(manifest);
  parse_manifest(text, path);  // what will be asked of it when it is read
  if (options_.before_commit) options_.before_commit();
  write_file_atomically(path, text);
  commit_partial(options_.folder, facts_.step);

  // The step exists now; what fails from here on does not undo it.
  Commit done;
  const Failure failure = capture([&] {
    write_latest(options_.folder, facts_.step);
    done.removed = apply_retention(options_.folder, options_.keep, options_.keep_every);
  });
  if (failure) done.warning = failure->what();
  return done;
}

SaveResult Checkpointer::end_committing() {
  Commit done;
  std::optional<SharedError> failure = share(control_, capture([&] {
    if (first()) done = committing_.get();
  }));
  SaveResult result = end(std::move(failure));
  result.warning = std::move(done.warning);
  result.removed = std::move(done.removed);
  return result;
}

SaveResult Checkpointer::end(std::optional<SharedError> failure) {
  stage_ = Stage::idle;
  if (failure && first()) {
    // The failure is what to report; a folder that cannot be removed either is removed at the next start.
    (void)capture([&] { remove_partial(options_.folder, facts_.step); });
  }
  return {facts_.step, std::move(failure), "", {}, total_bytes_, stall_seconds_,
          std::chrono::duration<double>(Clock::now() - started_).count()};
}

}  // namespace longwave
