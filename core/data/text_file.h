// Text as documents: plain files and .gz files, a file is a document.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longwave {

// The whole text, decompressed when it is gzip. Throws data_error: missing, empty, a broken or cut .gz stream, or bytes that
// are no text (a NUL).
std::string read_text_file(const std::string& path);

// What can be seen of a text file without reading it whole: throws data_error as read_text_file when it is missing, empty or
// begins like a binary file.
void check_text_file(const std::string& path);

// True when the first bytes of a file are text or a gzip stream, by their look only.
bool looks_like_text(std::string_view first_bytes);

// A file, every file below a folder (hidden ones left out), or what a glob matches; in byte order of the paths, so that the
// order does not depend on the machine. Throws data_error when there is none.
std::vector<std::string> list_files(const std::string& path);

}  // namespace longwave
