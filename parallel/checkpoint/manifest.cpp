#include "parallel/checkpoint/manifest.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/safetensors_header.h"
#include "parallel/checkpoint/checksum.h"
#include "parallel/checkpoint/coverage.h"

namespace longwave {
namespace {

// A manifest of ours begins like this, so its own checksum has one place. The digits count as zeros in it.
constexpr std::string_view checksum_prefix = "{\n\"xxh3\": \"";
constexpr std::size_t checksum_digits = 16;
constexpr std::string_view format_name = "longwave-checkpoint";

std::uint64_t own_checksum(std::string text) {
  std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(checksum_prefix.size()), checksum_digits, '0');
  return checksum_of(text.data(), text.size());
}

// One element a line: a manifest of thousands of slices stays readable.
std::string lines_of(const Json& array) {
  std::string text = "[";
  for (std::size_t i = 0; i < array.size(); ++i) text += (i == 0 ? "\n " : ",\n ") + to_line(array[i]);
  return text + "\n]";
}

Json to_json(const StoredTensor& tensor) {
  Json slices = Json::array();
  for (const StoredSlice& slice : tensor.slices) slices.push_back(to_json(slice));
  return {{"name", tensor.name}, {"dtype", safetensors_name(tensor.dtype)}, {"shape", tensor.shape}, {"slices", slices}};
}

DType dtype_from(const std::string& name) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32}) {
    if (name == safetensors_name(dtype)) return dtype;
  }
  throw data_error("dtype {} is not known", name);
}

std::uint64_t checksum_from(const Json& json) {
  const auto text = json.get<std::string>();
  const std::optional<std::uint64_t> checksum = parse_checksum(text);
  if (!checksum) throw data_error("'{}' is not a checksum", text);
  return *checksum;
}

// nlohmann would turn -1 into a huge number and 1.5 into 1.
std::int64_t whole_number(const Json& json) {
  if (!json.is_number_integer()) throw data_error("{} is not an integer", to_line(json));
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
    throw data_error("{} is out of range", to_line(json));
  }
  const auto value = json.get<std::int64_t>();
  if (value < 0) throw data_error("{} is negative", value);
  return value;
}

std::uint64_t byte_count(const Json& json) { return static_cast<std::uint64_t>(whole_number(json)); }

StoredTensor tensor_from_json(const Json& json) {
  StoredTensor tensor;
  tensor.name = json.at("name").get<std::string>();
  tensor.dtype = dtype_from(json.at("dtype").get<std::string>());
  for (const Json& extent : json.at("shape")) tensor.shape.push_back(whole_number(extent));
  for (const Json& slice : json.at("slices")) tensor.slices.push_back(slice_from_json(slice));
  return tensor;
}

Manifest manifest_from_json(const Json& json) {
  if (json.at("format").get<std::string>() != format_name) throw data_error("is not a manifest of a checkpoint");
  const std::int64_t version = whole_number(json.at("format_version"));
  if (version != checkpoint_format_version) {
    throw data_error("has format version {}, this program reads {}", version, checkpoint_format_version);
  }
  Manifest manifest;
  manifest.facts.step = whole_number(json.at("step"));
  manifest.facts.samples = whole_number(json.at("samples"));
  manifest.facts.program = json.at("program").get<std::string>();
  manifest.time = json.at("time").get<std::string>();
  manifest.mesh.data = static_cast<int>(whole_number(json.at("mesh").at("data")));
  manifest.mesh.tensor = static_cast<int>(whole_number(json.at("mesh").at("tensor")));
  for (const auto& [key, value] : json.at("config").items()) manifest.facts.config.emplace_back(key, value.get<std::string>());
  manifest.facts.training = json.at("training");
  if (!manifest.facts.training.is_object()) throw data_error("training is not an object");
  for (const Json& file : json.at("files")) manifest.files.push_back(file_from_json(file));
  for (const Json& tensor : json.at("tensors")) manifest.tensors.push_back(tensor_from_json(tensor));
  return manifest;
}

}  // namespace

const StoredTensor* Manifest::find(const std::string& tensor) const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const StoredTensor& candidate) { return candidate.name == tensor; });
  return found == tensors.end() ? nullptr : &*found;
}

std::uint64_t Manifest::bytes() const {
  std::uint64_t sum = 0;
  for (const StoredFile& file : files) sum += file.bytes;
  return sum;
}

std::string moment_name(int moment, const std::string& parameter) {
  return fmt::format("optimizer.moment{}.{}", moment, parameter);
}

Json to_json(const StoredFile& file) {
  return {{"name", file.name},
          {"bytes", file.bytes},
          {"header_bytes", file.header_bytes},
          {"header_xxh3", checksum_text(file.header_checksum)}};
}

StoredFile file_from_json(const Json& json) {
  return {json.at("name").get<std::string>(), byte_count(json.at("bytes")), byte_count(json.at("header_bytes")),
          checksum_from(json.at("header_xxh3"))};
}

Json to_json(const StoredSlice& slice) {
  const Rectangle& part = slice.rectangle;
  return {{"file", slice.file},
          {"tensor", slice.tensor},
          {"rows", {part.row_begin, part.row_end}},
          {"columns", {part.column_begin, part.column_end}},
          {"offset", slice.offset},
          {"bytes", slice.bytes},
          {"xxh3", checksum_text(slice.checksum)}};
}

StoredSlice slice_from_json(const Json& json) {
  const Json& rows = json.at("rows");
  const Json& columns = json.at("columns");
  return {byte_count(json.at("file")),
          json.at("tensor").get<std::string>(),
          {whole_number(rows.at(0)), whole_number(rows.at(1)), whole_number(columns.at(0)), whole_number(columns.at(1))},
          byte_count(json.at("offset")),
          byte_count(json.at("bytes")),
          checksum_from(json.at("xxh3"))};
}

std::string format_manifest(const Manifest& manifest) {
  Json config = Json::object();
  for (const auto& [key, value] : manifest.facts.config) config[key] = value;
  Json files = Json::array(), tensors = Json::array();
  for (const StoredFile& file : manifest.files) files.push_back(to_json(file));
  for (const StoredTensor& tensor : manifest.tensors) tensors.push_back(to_json(tensor));

  std::string text = std::string(checksum_prefix) + std::string(checksum_digits, '0') + "\"";
  const auto add = [&](const char* key, const std::string& value) { text += fmt::format(",\n\"{}\": {}", key, value); };
  add("format", to_line(format_name));
  add("format_version", fmt::format("{}", checkpoint_format_version));
  add("program", to_line(manifest.facts.program));
  add("time", to_line(manifest.time));
  add("step", fmt::format("{}", manifest.facts.step));
  add("samples", fmt::format("{}", manifest.facts.samples));
  add("mesh", to_line({{"data", manifest.mesh.data}, {"tensor", manifest.mesh.tensor}}));
  add("training", to_line(manifest.facts.training));
  add("config", to_line(config));
  add("files", lines_of(files));
  add("tensors", lines_of(tensors));
  text += "\n}\n";
  const std::string digits = checksum_text(own_checksum(text));
  std::copy(digits.begin(), digits.end(), text.begin() + static_cast<std::ptrdiff_t>(checksum_prefix.size()));
  return text;
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
  if (text.size() < checksum_prefix.size() + checksum_digits || !text.starts_with(checksum_prefix)) {
    throw data_error("{}: is not a manifest of a checkpoint, or is cut off", path);
  }
  const std::string_view expected = text.substr(checksum_prefix.size(), checksum_digits);
  const std::string found = checksum_text(own_checksum(std::string(text)));
  if (found != expected) throw data_error("{}: corrupted: checksum {}, expected {}", path, found, expected);
  Manifest manifest;
  const Json json = parse_json(text, path);
  try {
    read_fields(json, path, [&](const Json& fields) { manifest = manifest_from_json(fields); });
    check_coverage(manifest);
  } catch (const Error& error) {
    const std::string message = error.what();
    throw data_error("{}{}", message.starts_with(path) ? "" : path + ": ", message);
  }
  return manifest;
}

}  // namespace longwave
