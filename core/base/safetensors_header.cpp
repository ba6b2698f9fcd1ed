#include "core/base/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/base/divide.h"
#include "core/base/error.h"

namespace longwave {
namespace {

using nlohmann::json;

constexpr DType known_dtypes[] = {DType::f32, DType::bf16, DType::f64, DType::i32};

// A name from the file as it may stand in a one-line message: quoted, escaped, short.
std::string printable(const std::string& text) {
  return json(text.size() > 80 ? text.substr(0, 80) : text).dump(-1, ' ', true, json::error_handler_t::replace);
}

// Follows the one structure a header may have and refuses everything else as it is read, so that neither nesting nor
// repetition costs memory: { name: {dtype, shape, data_offsets}, "__metadata__": {text: text} }.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(const std::string& path) : path_(path) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::start: place_ = Place::header; return true;
      case Place::tensor_value: place_ = Place::tensor; return true;
      case Place::metadata_value: place_ = Place::metadata; return true;
      default: refuse_value("an object");
    }
  }

  bool key(std::string& text) override {
    switch (place_) {
      case Place::header: begin_member(text); break;
      case Place::tensor: begin_field(text); break;
      case Place::metadata:
        metadata_key_ = text;
        if (header_.metadata.contains(text)) refuse("metadata key {} appears twice", printable(text));
        place_ = Place::metadata_text;
        break;
      default: refuse_value("a key");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) finish_tensor();
    place_ = place_ == Place::header ? Place::end : Place::header;
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::dtype) {
      set_dtype(text);
      place_ = Place::tensor;
    } else if (place_ == Place::metadata_text) {
      header_.metadata.emplace(metadata_key_, text);
      place_ = Place::metadata;
    } else {
      refuse_value("a string");
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::shape) {
      place_ = Place::shape_numbers;
    } else if (place_ == Place::offsets) {
      place_ = Place::offset_numbers;
    } else {
      refuse_value("a list");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::tensor;
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ == Place::shape_numbers) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) overflow();
      tensor_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (place_ == Place::offset_numbers) {
      offsets_.push_back(value);
    } else {
      refuse_value("a number");
    }
    return true;
  }

  bool null() override { refuse_value("null"); }
  bool boolean(bool) override { refuse_value("a boolean"); }
  bool number_integer(std::int64_t) override { refuse_value("a negative number"); }
  bool number_float(double, const std::string&) override { refuse_value("a number that is no 64-bit integer"); }
  bool binary(json::binary_t&) override { refuse_value("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    refuse("not valid JSON in UTF-8 at byte {}", position);
  }

 private:
  enum class Place {
    start, header, tensor_value, tensor, dtype, shape, shape_numbers, offsets, offset_numbers,
    metadata_value, metadata, metadata_text, end,
  };

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw data_error("{}: safetensors header: {}", path_, fmt::format(format, std::forward<Args>(args)...));
  }

  [[noreturn]] void refuse_value(const char* what) const {
    refuse("{} where none belongs{}", what, tensor_.name.empty() ? "" : ", at tensor " + printable(tensor_.name));
  }

  [[noreturn]] void overflow() const { refuse("the shape of {} overflows", printable(tensor_.name)); }

  void begin_member(const std::string& name) {
    if (!names_.insert(name).second) refuse("{} appears twice", printable(name));
    if (name == "__metadata__") {
      place_ = Place::metadata_value;
      return;
    }
    tensor_ = {};
    tensor_.name = name;
    offsets_.clear();
    fields_seen_ = 0;
    place_ = Place::tensor_value;
  }

  void begin_field(const std::string& field) {
    unsigned bit = 0;
    if (field == "dtype") {
      bit = 1;
      place_ = Place::dtype;
    } else if (field == "shape") {
      bit = 2;
      place_ = Place::shape;
    } else if (field == "data_offsets") {
      bit = 4;
      place_ = Place::offsets;
    } else {
      refuse("unknown field {} of {}", printable(field), printable(tensor_.name));
    }
    if ((fields_seen_ & bit) != 0) refuse("{} of {} appears twice", field, printable(tensor_.name));
    fields_seen_ |= bit;
  }

  void set_dtype(const std::string& text) {
    for (DType dtype : known_dtypes) {
      if (text == safetensors_name(dtype)) {
        tensor_.dtype = dtype;
        return;
      }
    }
    refuse("dtype {} of {} is not one of F32, BF16, F64, I32", printable(text), printable(tensor_.name));
  }

  void finish_tensor() {
    if (fields_seen_ != 7) refuse("{} lacks dtype, shape or data_offsets", printable(tensor_.name));
    if (offsets_.size() != 2) refuse("data_offsets of {} are {} numbers, not 2", printable(tensor_.name), offsets_.size());
    tensor_.begin = offsets_[0];
    tensor_.end = offsets_[1];
    if (tensor_.begin > tensor_.end) refuse("{} ends before it begins", printable(tensor_.name));
    std::uint64_t bytes = size_of(tensor_.dtype);
    for (std::int64_t extent : tensor_.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) overflow();
    }
    if (bytes != tensor_.bytes()) {
      refuse("{} has {} bytes, its dtype and shape need {}", printable(tensor_.name), tensor_.bytes(), bytes);
    }
    header_.tensors.push_back(std::move(tensor_));
    tensor_ = {};
  }

  const std::string& path_;
  SafetensorsHeader header_;
  Place place_ = Place::start;
  std::unordered_set<std::string> names_;
  SafetensorsEntry tensor_;
  std::vector<std::uint64_t> offsets_;
  unsigned fields_seen_ = 0;
  std::string metadata_key_;
};

// The data must be covered exactly: a hole could hide bytes, an overlap would tie two tensors together.
void check_coverage(const std::vector<SafetensorsEntry>& tensors, std::uint64_t data_bytes, const std::string& path) {
  std::uint64_t position = 0;
  for (const SafetensorsEntry& tensor : tensors) {
    if (tensor.begin < position) {
      throw data_error("{}: safetensors header: {} overlaps another tensor", path, printable(tensor.name));
    }
    if (tensor.begin > position) {
      throw data_error("{}: safetensors header: bytes [{}, {}) belong to no tensor", path, position, tensor.begin);
    }
    position = tensor.end;
  }
  if (position > data_bytes) {
    throw data_error("{}: truncated: its header describes {} bytes of data, the file holds {}", path, position, data_bytes);
  }
  if (position < data_bytes) {
    throw data_error("{}: {} bytes at the end belong to no tensor", path, data_bytes - position);
  }
}

}  // namespace

const char* safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "F32";
    case DType::bf16: return "BF16";
    case DType::f64: return "F64";
    case DType::i32: return "I32";
  }
  return "?";
}

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes, const std::string& path) {
  if (text.empty() || text.front() != '{') throw data_error("{}: not a safetensors file", path);
  // The JSON parser takes a zero byte for the end of its input.
  if (const auto zero = text.find('\0'); zero != text.npos) {
    throw data_error("{}: safetensors header: not valid JSON in UTF-8 at byte {}", path, zero + 1);
  }
  HeaderReader reader(path);
  json::sax_parse(text.begin(), text.end(), &reader);
  SafetensorsHeader header = reader.take();
  std::sort(header.tensors.begin(), header.tensors.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_coverage(header.tensors, data_bytes, path);
  return header;
}

std::string format_safetensors_header(std::vector<SafetensorsEntry>& tensors,
                                      const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return size_of(a.dtype) > size_of(b.dtype);
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  std::uint64_t position = 0;
  std::unordered_set<std::string> names;
  for (SafetensorsEntry& tensor : tensors) {
    LONGWAVE_CHECK(names.insert(tensor.name).second, "two tensors are called {}", tensor.name);
    std::uint64_t bytes = size_of(tensor.dtype);
    for (std::int64_t extent : tensor.shape) bytes *= static_cast<std::uint64_t>(extent);
    tensor.begin = position;
    tensor.end = position += bytes;
    header.push_back({tensor.name, {{"dtype", safetensors_name(tensor.dtype)},
                                    {"shape", tensor.shape},
                                    {"data_offsets", {tensor.begin, tensor.end}}}});
  }
  std::string text = header.dump();
  text.resize(round_up(text.size(), 8), ' ');
  return text;
}

}  // namespace longwave
