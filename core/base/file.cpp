#include "core/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/error.h"

namespace longwave {
namespace {

// One transfer stays below what Linux moves in a call (2 GiB less a page).
constexpr std::size_t max_transfer = std::size_t{1} << 30;
constexpr mode_t new_file_mode = 0666;  // less the umask

int open_for_writing(const std::string& path, int flags) {
  return LONGWAVE_SYSTEM("open", path, ::open(path.c_str(), flags | O_CLOEXEC, new_file_mode));
}

struct stat status_of(int descriptor, const std::string& path) {
  struct stat status {};
  LONGWAVE_SYSTEM("fstat", path, ::fstat(descriptor, &status));
  return status;
}

}  // namespace

File::File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File File::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const int error = errno;
    switch (error) {
      case ENOENT:
      case ENOTDIR: throw data_error("{}: there is no such file; check the path", path);
      case EACCES:
      case EPERM: throw data_error("{}: not readable; check the permissions", path);
      default: throw system_error("open", path, error, __FILE__, __LINE__);
    }
  }
  File file(descriptor, path);
  if (S_ISDIR(status_of(descriptor, path).st_mode)) throw data_error("{}: is a folder, not a file", path);
  return file;
}

File File::create(const std::string& path) { return {open_for_writing(path, O_RDWR | O_CREAT | O_TRUNC), path}; }
File File::append(const std::string& path) { return {open_for_writing(path, O_RDWR | O_CREAT | O_APPEND), path}; }
File File::update(const std::string& path) { return {open_for_writing(path, O_RDWR | O_CREAT), path}; }

std::uint64_t File::size() const { return static_cast<std::uint64_t>(status_of(descriptor_, path_).st_size); }

void File::read_at(void* out, std::size_t bytes, std::uint64_t offset) const {
  auto* position = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t count = ::pread(descriptor_, position, std::min(bytes, max_transfer), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      throw system_error("read", path_, errno, __FILE__, __LINE__);
    }
    if (count == 0) throw data_error("{}: truncated: ends at byte {}, {} more were expected", path_, offset, bytes);
    position += count;
    offset += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::size_t>(count);
  }
}

void File::write_at(const void* data, std::size_t bytes, std::uint64_t offset) {
  const auto* position = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::pwrite(descriptor_, position, std::min(bytes, max_transfer), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      throw system_error("write", path_, errno, __FILE__, __LINE__);
    }
    position += count;
    offset += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::size_t>(count);
  }
}

void File::write(std::string_view data) {
  while (!data.empty()) {
    const ssize_t count = ::write(descriptor_, data.data(), std::min(data.size(), max_transfer));
    if (count < 0) {
      if (errno == EINTR) continue;
      throw system_error("write", path_, errno, __FILE__, __LINE__);
    }
    data.remove_prefix(static_cast<std::size_t>(count));
  }
}

void File::truncate(std::uint64_t bytes) {
  LONGWAVE_SYSTEM("ftruncate", path_, ::ftruncate(descriptor_, static_cast<off_t>(bytes)));
}

void File::sync() { LONGWAVE_SYSTEM("fsync", path_, ::fsync(descriptor_)); }

void File::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  LONGWAVE_SYSTEM("close", path_, ::close(descriptor));
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const File file = File::open(path);
  size_ = file.size();
  if (size_ == 0) return;  // mmap refuses an empty range
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (address == MAP_FAILED) throw system_error("mmap", path, errno, __FILE__, __LINE__);
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

// The process id keeps two writers of one name from sharing a temporary file; it stays in the same folder because a rename
// is atomic only within a file system.
AtomicFile::AtomicFile(const std::string& path)
    : path_(path), file_(File::create(fmt::format("{}.{}.partial", path, ::getpid()))) {}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(file_.path().c_str());
}

void AtomicFile::commit() {
  file_.sync();
  file_.close();
  LONGWAVE_SYSTEM("rename", path_, ::rename(file_.path().c_str(), path_.c_str()));
  committed_ = true;
  sync_directory(parent_directory(path_));
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.file().write_at(bytes.data(), bytes.size(), 0);
  file.commit();
}

std::string read_file(const std::string& path) {
  const File file = File::open(path);
  std::string bytes(file.size(), '\0');
  file.read_at(bytes.data(), bytes.size(), 0);
  return bytes;
}

std::vector<std::string> make_directories(const std::string& path) {
  std::vector<std::string> missing;  // innermost first
  for (std::string folder = path; !std::filesystem::is_directory(folder); folder = parent_directory(folder)) {
    missing.push_back(folder);
    if (parent_directory(folder) == folder) break;
  }
  std::vector<std::string> made;
  for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder) {
    if (::mkdir(folder->c_str(), 0777) == 0) {
      made.push_back(*folder);
      continue;
    }
    const int error = errno;
    if (error == EEXIST && std::filesystem::is_directory(*folder)) continue;  // another process was quicker
    for (auto mine = made.rbegin(); mine != made.rend(); ++mine) ::rmdir(mine->c_str());
    throw system_error("mkdir", *folder, error, __FILE__, __LINE__);
  }
  return made;
}

bool remove_file(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  throw system_error("unlink", path, errno, __FILE__, __LINE__);
}

void remove_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) throw system_error("remove", path, error.value(), __FILE__, __LINE__);
}

void sync_directory(const std::string& path) {
  const int descriptor = LONGWAVE_SYSTEM("open", path, ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  // Some network file systems cannot sync a folder and make renames durable by themselves.
  if (result < 0 && error != EINVAL && error != ENOTSUP) throw system_error("fsync", path, error, __FILE__, __LINE__);
}

std::string parent_directory(const std::string& path) {
  std::filesystem::path folder(path);
  if (!folder.has_filename()) folder = folder.parent_path();  // "a/b/" is "a/b"
  const std::string parent = folder.parent_path().string();
  return parent.empty() ? "." : parent;
}

std::uint64_t free_bytes(const std::string& directory) {
  struct statvfs status {};
  LONGWAVE_SYSTEM("statvfs", directory, ::statvfs(directory.c_str(), &status));
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

}  // namespace longwave
