// Files through POSIX calls, each checked: interrupted and short transfers are finished, and a failure throws an Error that
// names the path. What is missing or unreadable as an input is bad data (65); what the file system refuses is io (74).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longwave {

class File {
 public:
  File() = default;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();  // closes without a check: call close() after writing

  static File open(const std::string& path);        // for reading; missing, a folder or unreadable: data_error
  static File create(const std::string& path);      // for reading and writing, emptied
  static File append(const std::string& path);      // writes go to the end; created when missing
  static File update(const std::string& path);      // for reading and writing in place; created when missing

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }
  std::uint64_t size() const;  // bytes

  // Exactly `bytes` bytes at `offset`. A file that ends before is truncated: data_error naming path and offset.
  void read_at(void* out, std::size_t bytes, std::uint64_t offset) const;
  void write_at(const void* data, std::size_t bytes, std::uint64_t offset);
  // At the end of a file opened by append(), in one call to write unless the system cuts it short.
  void write(std::string_view data);
  void truncate(std::uint64_t bytes);
  void sync();   // on disk when it returns
  void close();  // some file systems report a failed write only here

 private:
  File(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  int descriptor_ = -1;
  std::string path_;
};

// A whole file as read-only memory. Opening is O(1); pages are read as they are touched. If another process cuts the file
// while it is mapped, touching the lost part raises SIGBUS: inputs are not to be edited under a running job.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);  // missing, a folder or unreadable: data_error
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::byte* data() const { return data_; }  // null when the file is empty
  std::size_t size() const { return size_; }       // bytes
  const std::string& path() const { return path_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string path_;
};

// A file that appears under its name complete and on disk, or not at all. It is written beside its place; commit() syncs
// it, renames it and syncs the folder. Without commit() the destructor removes what was written.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  File& file() { return file_; }
  const std::string& path() const { return path_; }  // the final one
  void commit();

 private:
  std::string path_;
  File file_;
  bool committed_ = false;
};

void write_file_atomically(const std::string& path, std::string_view bytes);
std::string read_file(const std::string& path);  // missing, a folder or unreadable: data_error

// Makes `path` and the folders above it that are missing; returns those it made, outermost first. All or none.
std::vector<std::string> make_directories(const std::string& path);
bool remove_file(const std::string& path);       // false: there was none
void remove_directories(const std::string& path);  // with everything in it; nothing there is fine
void sync_directory(const std::string& path);    // so that names made in it survive a power failure
std::string parent_directory(const std::string& path);  // "." when there is none
std::uint64_t free_bytes(const std::string& directory);  // what an ordinary user may still write there

}  // namespace longwave
