#include "core/data/text_file.h"

#include <glob.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/base/error.h"
#include "core/base/file.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

struct CloseGzip {
  void operator()(gzFile file) const { gzclose_r(file); }
};
using GzipReader = std::unique_ptr<std::remove_pointer_t<gzFile>, CloseGzip>;

std::vector<std::string> list_folder(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  auto entry = fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->path().filename().string().front() == '.') {
      if (entry->is_directory()) entry.disable_recursion_pending();
    } else if (entry->is_regular_file()) {
      files.push_back(entry->path().string());
    }
  }
  if (error) throw data_error("{}: the folder cannot be read: {}", folder.string(), error.message());
  return files;
}

std::vector<std::string> match_glob(const std::string& pattern) {
  glob_t matches{};
  const int result = glob(pattern.c_str(), GLOB_NOSORT | GLOB_BRACE, nullptr, &matches);
  std::vector<std::string> files;
  for (std::size_t i = 0; result == 0 && i < matches.gl_pathc; ++i) {
    if (fs::is_regular_file(matches.gl_pathv[i])) files.emplace_back(matches.gl_pathv[i]);
  }
  globfree(&matches);
  if (result != 0 && result != GLOB_NOMATCH) throw io_error("{}: the folder of this pattern cannot be read", pattern);
  return files;
}

std::uint64_t size_on_disk(const std::string& path) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  if (error) throw data_error("{}: cannot be read: {}", path, error.message());
  if (size == 0) throw data_error("{}: the file is empty; leave it out or replace it", path);
  return size;
}

}  // namespace

std::string read_text_file(const std::string& path) {
  const std::uint64_t size = size_on_disk(path);
  GzipReader file(gzopen(path.c_str(), "rb"));
  if (!file) throw data_error("{}: cannot be opened: {}", path, std::strerror(errno));
  gzbuffer(file.get(), 1u << 18);

  std::string text;
  const bool compressed = gzdirect(file.get()) == 0;
  constexpr std::size_t step = std::size_t{1} << 20;
  text.reserve(compressed ? step : static_cast<std::size_t>(size) + step);
  for (;;) {
    const std::size_t begin = text.size();
    text.resize(begin + step);
    const int count = gzread(file.get(), text.data() + begin, static_cast<unsigned>(step));
    text.resize(begin + static_cast<std::size_t>(std::max(count, 0)));
    int code = Z_OK;
    const char* message = gzerror(file.get(), &code);
    if (count < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      throw data_error("{}: the gzip stream breaks off after {} bytes of text ({}); fetch the file again", path, text.size(),
                       code == Z_ERRNO ? std::strerror(errno) : message);
    }
    if (count == 0) break;
  }
  if (text.empty()) throw data_error("{}: holds no text; leave it out or replace it", path);
  if (const std::size_t nul = text.find('\0'); nul != std::string::npos) {
    throw data_error("{}: not text: a NUL byte at offset {}; for raw token files set data.dtype", path, nul);
  }
  return text;
}

void check_text_file(const std::string& path) {
  std::string beginning(static_cast<std::size_t>(std::min<std::uint64_t>(size_on_disk(path), 4096)), '\0');
  File::open(path).read_at(beginning.data(), beginning.size(), 0);
  if (!looks_like_text(beginning)) {
    throw data_error("{}: not text: a NUL byte at offset {}", path, beginning.find('\0'));
  }
}

bool looks_like_text(std::string_view first_bytes) {
  const bool gzip = first_bytes.size() >= 2 && first_bytes[0] == '\x1f' && first_bytes[1] == '\x8b';
  return gzip || first_bytes.find('\0') == std::string_view::npos;
}

std::vector<std::string> list_files(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return {path};
  std::vector<std::string> files;
  if (fs::is_directory(path, error)) {
    files = list_folder(path);
    if (files.empty()) throw data_error("{}: there is no file in this folder", path);
  } else if (path.find_first_of("*?[{") != std::string::npos) {
    files = match_glob(path);
    if (files.empty())
      throw data_error("{}: no file matches; patterns are relative to the working directory {}", path,
                       fs::current_path(error).string());
  } else {
    throw data_error("{}: no such file or folder; paths are relative to the working directory {}", path,
                     fs::current_path(error).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace longwave
