// JSON files, and files of one JSON object a line. Keys keep the order in which they were set. A number that JSON cannot hold
// (NaN, infinity) is written as null.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.h"

namespace longwave {

using Json = nlohmann::ordered_json;

// One line, without the line's end; bytes that are no UTF-8 are replaced.
std::string to_line(const Json& value);

Json parse_json(std::string_view text, const std::string& path);  // data_error naming path and byte
Json read_json(const std::string& path);                          // data_error: missing or malformed
void write_json_atomically(const std::string& path, const Json& value);  // indented

// `read(value)` with nlohmann's type errors turned into a data_error that names the file.
void read_fields(const Json& value, const std::string& path, const std::function<void(const Json&)>& read);

// A file that grows by whole lines. Opening it cuts off a last line that a crash left torn, and a line that could not be
// written whole (full disk: io_error) leaves nothing behind. One writer; for one thread.
class JsonLines {
 public:
  explicit JsonLines(const std::string& path);  // created when missing

  void append(const Json& object);
  // Keeps the lines up to the first for which `keep` is false, and makes that durable. A malformed line: data_error.
  void keep_while(const std::function<bool(const Json&)>& keep);
  void sync() { file_.sync(); }
  const std::string& path() const { return file_.path(); }

 private:
  File file_;
  std::uint64_t size_ = 0;  // bytes of whole lines
};

// Every whole line; a torn last one is left out. A malformed line elsewhere: data_error naming file and line.
std::vector<Json> read_json_lines(const std::string& path);

}  // namespace longwave
