#include "core/base/json.h"

#include <utility>

#include "core/base/error.h"

namespace longwave {
namespace {

// Calls visit(object, offset of the line's end) for each whole line of `text` until it returns false.
template <class Visit>
void for_each_line(std::string_view text, const std::string& path, Visit visit) {
  std::size_t number = 1;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    if (end == text.npos) return;
    Json object = Json::parse(text.substr(begin, end - begin), nullptr, false);
    if (!object.is_object()) throw data_error("{}:{}: not a JSON object; remove the line to go on", path, number);
    begin = end + 1;
    if (!visit(std::move(object), begin)) return;
  }
}

}  // namespace

std::string to_line(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json parse_json(std::string_view text, const std::string& path) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw data_error("{}: not valid JSON at byte {}", path, error.byte);
  } catch (const Json::out_of_range&) {
    throw data_error("{}: not valid JSON: a number is too large", path);
  }
}

Json read_json(const std::string& path) { return parse_json(read_file(path), path); }

void write_json_atomically(const std::string& path, const Json& value) {
  write_file_atomically(path, value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void read_fields(const Json& value, const std::string& path, const std::function<void(const Json&)>& read) {
  try {
    read(value);
  } catch (const Json::exception&) {
    throw data_error("{}: a field is missing or has the wrong type", path);
  }
}

JsonLines::JsonLines(const std::string& path) : file_(File::append(path)) {
  const std::string text = read_file(path);
  const std::size_t end = text.rfind('\n');
  size_ = end == text.npos ? 0 : end + 1;
  if (size_ != text.size()) file_.truncate(size_);
}

void JsonLines::append(const Json& object) {
  const std::string line = to_line(object) + "\n";
  try {
    file_.write(line);
  } catch (const Error&) {
    try {
      file_.truncate(size_);
    } catch (const Error&) {  // the failed write is what to report
    }
    throw;
  }
  size_ += line.size();
}

void JsonLines::keep_while(const std::function<bool(const Json&)>& keep) {
  std::uint64_t kept = 0;
  for_each_line(read_file(path()), path(), [&](const Json& object, std::size_t end) {
    if (!keep(object)) return false;
    kept = end;
    return true;
  });
  if (kept == size_) return;
  file_.truncate(kept);
  file_.sync();
  size_ = kept;
}

std::vector<Json> read_json_lines(const std::string& path) {
  std::vector<Json> objects;
  for_each_line(read_file(path), path, [&](Json object, std::size_t) {
    objects.push_back(std::move(object));
    return true;
  });
  return objects;
}

}  // namespace longwave
