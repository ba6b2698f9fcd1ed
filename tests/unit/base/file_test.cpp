#include "core/base/file.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/file_size_limit.h"
#include "tests/unit/temporary_directory.h"

namespace longwave {
namespace {

std::size_t entries(const std::string& folder) {
  const std::filesystem::directory_iterator iterator(folder);
  return static_cast<std::size_t>(std::distance(begin(iterator), end(iterator)));
}

TEST(File, ReadsBackWhatWasWrittenAtAnyOffset) {
  TemporaryDirectory folder;
  File file = File::create(folder / "a");
  file.write_at("world", 5, 6);
  file.write_at("hello ", 6, 0);
  char middle[5];
  file.read_at(middle, 5, 3);
  EXPECT_EQ(std::string(middle, 5), "lo wo");
  EXPECT_EQ(file.size(), 11u);
  file.truncate(4);
  file.sync();
  file.close();
  EXPECT_FALSE(file.is_open());
  EXPECT_EQ(read_file(folder / "a"), "hell");
}

TEST(File, AppendsToWhatIsThereAndUpdatesInPlace) {
  TemporaryDirectory folder;
  File::append(folder / "a").write("one\n");
  File::append(folder / "a").write("two\n");
  File::update(folder / "a").write_at("ONE", 3, 0);
  EXPECT_EQ(read_file(folder / "a"), "ONE\ntwo\n");
}

TEST(File, CallsAMissingOrForeignInputBadData) {
  TemporaryDirectory folder;
  EXPECT_ERROR(File::open(folder / "missing"), ExitCode::data, folder / "missing: there is no such file");
  EXPECT_ERROR(File::open(folder.path()), ExitCode::data, folder.path() + ": is a folder");
  write_file_atomically(folder / "file", "x");
  EXPECT_ERROR(File::open(folder / "file/below"), ExitCode::data, "file/below");
  EXPECT_ERROR(MappedFile(folder / "missing"), ExitCode::data, "missing");
  EXPECT_ERROR(read_file(folder / "missing"), ExitCode::data, "missing");
}

TEST(File, NamesTheOffsetWhereATruncatedInputEnds) {
  TemporaryDirectory folder;
  write_file_atomically(folder / "a", "12345");
  char bytes[8];
  EXPECT_ERROR(File::open(folder / "a").read_at(bytes, 4, 3), ExitCode::data, "ends at byte 5, 2 more");
}

TEST(File, CallsARefusedOutputInputOutput) {
  TemporaryDirectory folder;
  EXPECT_ERROR(File::create(folder / "no/such"), ExitCode::io, folder / "no/such");
  EXPECT_ERROR(File::create(folder.path()), ExitCode::io, folder.path());
}

TEST(File, NamesAFullDiskAndARemedy) {
  EXPECT_ERROR(File::append("/dev/full").write("x"), ExitCode::io, "/dev/full): No space left on device; free some space");
}

TEST(File, ReportsAFileSizeLimitMetInTheMiddleOfAWrite) {
  TemporaryDirectory folder;
  const std::string bytes(10000, 'x');
  const FileSizeLimit limit(4096);
  EXPECT_ERROR(File::create(folder / "a").write_at(bytes.data(), bytes.size(), 0), ExitCode::io, "limit");
  EXPECT_ERROR(File::append(folder / "b").write(bytes), ExitCode::io, "limit");
}

// A pipe makes writes short, and the signals interrupt them.
TEST(File, FinishesShortAndInterruptedWrites) {
  TemporaryDirectory folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  struct sigaction interrupt {}, before {};
  interrupt.sa_handler = [](int) {};  // without SA_RESTART, so that calls return EINTR
  ASSERT_EQ(::sigaction(SIGUSR2, &interrupt, &before), 0);

  File pipe = File::append(folder / "pipe");
  std::string sent(1 << 20, '\0');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31 >> 3);
  std::atomic<bool> written = false;
  std::thread writer([&] {
    pipe.write(sent);
    written = true;
  });
  std::string received;
  std::vector<char> piece(20011);
  while (received.size() < sent.size()) {
    for (int i = 0; i < 3 && !written; ++i) {  // the first cuts a write short, those after find one that moved nothing yet
      ::pthread_kill(writer.native_handle(), SIGUSR2);
      ::usleep(300);
    }
    const std::size_t wanted = std::min(piece.size(), sent.size() - received.size());
    const ssize_t count = ::read(pipe.descriptor(), piece.data(), wanted);
    ASSERT_GT(count, 0);
    received.append(piece.data(), static_cast<std::size_t>(count));
  }
  writer.join();
  ::sigaction(SIGUSR2, &before, nullptr);
  EXPECT_TRUE(received == sent);
}

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  TemporaryDirectory folder;
  write_file_atomically(folder / "a", "abc");
  MappedFile first(folder / "a");
  const MappedFile file = std::move(first);
  ASSERT_EQ(file.size(), 3u);
  EXPECT_EQ(static_cast<char>(file.data()[2]), 'c');
  write_file_atomically(folder / "empty", "");
  EXPECT_EQ(MappedFile(folder / "empty").size(), 0u);
}

TEST(AtomicFile, LeavesTheOldFileAndNothingElseWithoutACommit) {
  TemporaryDirectory folder;
  write_file_atomically(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.file().write_at("new", 3, 0);
    EXPECT_EQ(read_file(folder / "a"), "old");
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(entries(folder.path()), 1u);
  write_file_atomically(folder / "a", "new");
  EXPECT_EQ(read_file(folder / "a"), "new");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(AtomicFile, LeavesTheOldFileAndNothingElseWhenTheDiskIsFull) {
  TemporaryDirectory folder;
  write_file_atomically(folder / "a", "old");
  {
    const FileSizeLimit limit(16);
    EXPECT_ERROR(write_file_atomically(folder / "a", std::string(17, 'x')), ExitCode::io, folder / "a");
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(AtomicFile, RemovesItsTemporaryFileWhenTheNameIsTaken) {
  TemporaryDirectory folder;
  make_directories(folder / "taken/by/a/folder");
  EXPECT_ERROR(write_file_atomically(folder / "taken", "x"), ExitCode::io, folder / "taken");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(Directories, AreMadeAllOrNone) {
  TemporaryDirectory folder;
  EXPECT_EQ(make_directories(folder / "a/b/"), (std::vector<std::string>{folder / "a", folder / "a/b/"}));
  EXPECT_TRUE(make_directories(folder / "a/b").empty());
  EXPECT_ERROR(make_directories(folder / ("c/d/" + std::string(300, 'x'))), ExitCode::io, "mkdir");
  EXPECT_FALSE(std::filesystem::exists(folder / "c"));
  write_file_atomically(folder / "file", "x");
  EXPECT_ERROR(make_directories(folder / "file"), ExitCode::io, folder / "file");
  EXPECT_ERROR(make_directories(folder / "file/below"), ExitCode::io, folder / "file");
}

TEST(Directories, AndFilesAreRemovedOnceAndForAll) {
  TemporaryDirectory folder;
  make_directories(folder / "a/b");
  write_file_atomically(folder / "a/b/c", "x");
  EXPECT_TRUE(remove_file(folder / "a/b/c"));
  EXPECT_FALSE(remove_file(folder / "a/b/c"));
  EXPECT_ERROR(remove_file(folder / "a"), ExitCode::io, folder / "a");
  remove_directories(folder / "a");
  remove_directories(folder / "a");
  EXPECT_EQ(entries(folder.path()), 0u);
}

TEST(Directories, KnowTheirParentAndTheirSpace) {
  EXPECT_EQ(parent_directory("a"), ".");
  EXPECT_EQ(parent_directory("a/b/"), "a");
  EXPECT_EQ(parent_directory("/a"), "/");
  TemporaryDirectory folder;
  EXPECT_GT(free_bytes(folder.path()), 0u);
  EXPECT_ERROR(free_bytes(folder / "missing"), ExitCode::io, "missing");
  EXPECT_ERROR(sync_directory(folder / "missing"), ExitCode::io, "missing");
}

}  // namespace
}  // namespace longwave
