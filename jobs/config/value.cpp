#include "jobs/config/value.h"

#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

namespace longwave {
namespace {

// All of `text` as T, without white space, hexadecimal or trailing words.
template <class T>
std::optional<T> whole_number(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  T number{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Integers are exact in a double up to here, so 1e6 is an integer and 1e300 is not one to rely on.
constexpr double largest_exact = 9007199254740992.0;

std::optional<double> integral_number(std::string_view text) {
  const auto number = whole_number<double>(text);
  if (!number || !std::isfinite(*number) || std::abs(*number) > largest_exact || std::trunc(*number) != *number) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

std::string source_at(const std::string& file, const YAML::Mark& mark) {
  return mark.is_null() ? file : fmt::format("{}:{}", file, mark.line + 1);
}

Value::Value(YAML::Node node, std::string key, std::string source)
    : node_(std::move(node)), key_(std::move(key)), source_(std::move(source)) {}

Value Value::parse(const std::string& text, std::string key, std::string source) {
  try {
    return {YAML::Load(text), std::move(key), std::move(source)};
  } catch (const YAML::Exception& error) {
    throw config_error("{}: {}: '{}' is not YAML: {}", source, key, text, error.msg);
  }
}

std::string Value::shown() const {
  if (is_null()) return "nothing";
  if (is_list()) return "a list";
  if (is_map()) return "a map";
  constexpr std::size_t longest = 60;
  const std::string& scalar = node_.Scalar();
  return scalar.size() <= longest ? "'" + scalar + "'" : "'" + scalar.substr(0, longest) + "...'";
}

Error Value::refuse(const std::string& what) const { return config_error("{}: {}: {}", source_, key_, what); }

std::string Value::text() const {
  if (!node_.IsScalar()) throw refuse(fmt::format("expected a word, got {}", shown()));
  return node_.Scalar();
}

std::int64_t Value::integer() const {
  if (node_.IsScalar()) {
    if (const auto number = whole_number<std::int64_t>(node_.Scalar())) return *number;
    if (const auto number = integral_number(node_.Scalar())) return static_cast<std::int64_t>(*number);
  }
  throw refuse(fmt::format("expected an integer, got {}", shown()));
}

std::uint64_t Value::natural() const {
  if (node_.IsScalar()) {
    if (const auto number = whole_number<std::uint64_t>(node_.Scalar())) return *number;
    const auto number = integral_number(node_.Scalar());
    if (number && *number >= 0) return static_cast<std::uint64_t>(*number);
  }
  throw refuse(fmt::format("expected an integer from 0 to 2^64 - 1, got {}", shown()));
}

double Value::number() const {
  if (node_.IsScalar()) {
    const auto number = whole_number<double>(node_.Scalar());
    if (number && std::isfinite(*number)) return *number;
  }
  throw refuse(fmt::format("expected a number, got {}", shown()));
}

bool Value::boolean() const {
  if (node_.IsScalar() && node_.Scalar() == "true") return true;
  if (node_.IsScalar() && node_.Scalar() == "false") return false;
  throw refuse(fmt::format("expected true or false, got {}", shown()));
}

std::vector<Value> Value::items() const {
  if (!is_list()) throw refuse(fmt::format("expected a list such as [a, b], got {}", shown()));
  std::vector<Value> items;
  const std::string file = source_.substr(0, source_.rfind(':'));
  for (const YAML::Node& item : node_) {
    // Only values of a file have lines of their own.
    const bool in_file = file != source_ && !item.Mark().is_null();
    items.emplace_back(item, fmt::format("{}[{}]", key_, items.size()), in_file ? source_at(file, item.Mark()) : source_);
  }
  return items;
}

std::vector<Value> Value::entries() const {
  if (!is_map()) throw refuse(fmt::format("expected a map such as {{key: value}}, got {}", shown()));
  const std::string file = source_.substr(0, source_.rfind(':'));
  std::vector<Value> entries;
  std::map<std::string, std::string> seen;  // key to source
  for (const auto& pair : node_) {
    const YAML::Node& name = pair.first;
    const std::string source = file != source_ ? source_at(file, name.Mark()) : source_;
    if (!name.IsScalar()) throw config_error("{}: {}: a key must be a word", source, key_);
    const std::string key = key_.empty() ? name.Scalar() : key_ + "." + name.Scalar();
    const auto [first, fresh] = seen.emplace(key, source);
    if (!fresh) throw config_error("{}: {}: given twice, first at {}", source, key, first->second);
    entries.emplace_back(pair.second, key, source);
  }
  return entries;
}

}  // namespace longwave
