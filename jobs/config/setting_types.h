// How a kind of value is read, checked and written back: one function a kind, each making a Setting for the table.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "jobs/config/schema.h"

namespace longwave {

// A field of a section of Config, readable and writable.
template <class Section, class T>
auto at(Section Config::*section, T Section::*field) {
  return [=](auto& config) -> auto& { return config.*section.*field; };
}
template <class Section, class Part, class T>
auto at(Section Config::*section, Part Section::*part, T Part::*field) {
  return [=](auto& config) -> auto& { return config.*section.*part.*field; };
}

constexpr double unlimited = 1e15;  // as good as no limit, and small enough to add up in 64 bits

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;  // low itself is out of range
  bool below_high = false;
  const char* zero = nullptr;  // the word for 0, such as "auto"; 0 itself is then accepted only by that word

  // A limit that only guards the arithmetic is not worth a reader's time, until it is exceeded.
  std::string described(bool guards = false) const {
    std::string text;
    if (std::isfinite(low)) text += fmt::format("{} {}", above_low ? "above" : "at least", low);
    if (high < unlimited || (guards && std::isfinite(high)))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", below_high ? "below" : "at most", high);
    return text;
  }
  bool holds(double value) const {
    return (above_low ? value > low : value >= low) && (below_high ? value < high : value <= high);
  }
};

template <class T>
T read_number(const Value& value, const Range& range) {
  if (range.zero != nullptr && !value.is_list() && !value.is_map() && !value.is_null() && value.text() == range.zero)
    return T{};
  T number{};
  if constexpr (std::is_same_v<T, double>) number = value.number();
  if constexpr (std::is_same_v<T, std::int64_t>) number = value.integer();
  if constexpr (std::is_same_v<T, std::uint64_t>) number = value.natural();
  if (!range.holds(static_cast<double>(number))) {
    const std::string alternative = range.zero != nullptr ? fmt::format(", or {}", range.zero) : "";
    throw value.refuse(fmt::format("{} is out of range, must be {}{}", number, range.described(true), alternative));
  }
  return number;
}

template <class T>
std::string written_number(T number, const Range& range) {
  return range.zero != nullptr && number == T{} ? range.zero : fmt::format("{}", number);
}

template <class T>
std::string number_type(const Range& range) {
  std::string type = std::is_same_v<T, double> ? "number" : "integer";
  if (const std::string limits = range.described(); !limits.empty()) type += ", " + limits;
  if (range.zero != nullptr) type += fmt::format(", or {}", range.zero);
  return type;
}

template <class T>
using FieldType = std::remove_cvref_t<std::invoke_result_t<T, Config&>>;

// An integer or a real number, as the field is.
template <class Field>
Setting number(std::string key, Field field, Range range, std::string standard, std::string meaning) {
  using T = FieldType<Field>;
  return {std::move(key),
          number_type<T>(range),
          std::move(standard),
          std::move(meaning),
          [=](Config& config, const Value& value) { field(config) = read_number<T>(value, range); },
          [=](const Config& config) { return written_number(field(config), range); }};
}

template <class Field>
Setting boolean(std::string key, Field field, std::string meaning) {
  return {std::move(key),
          "true or false",
          "",
          std::move(meaning),
          [=](Config& config, const Value& value) { field(config) = value.boolean(); },
          [=](const Config& config) { return std::string(field(config) ? "true" : "false"); }};
}

// As YAML: plain where that reads back as the same word, else in double quotes.
std::string written_text(const std::string& text);

template <class Field>
Setting text(std::string key, Field field, std::string type, std::string standard, std::string meaning) {
  return {std::move(key),
          std::move(type),
          std::move(standard),
          std::move(meaning),
          [=](Config& config, const Value& value) {
            if (value.text().empty()) throw value.refuse("must not be empty");
            field(config) = value.text();
          },
          [=](const Config& config) { return written_text(field(config)); }};
}

template <class T>
using Words = std::vector<std::pair<const char*, T>>;

std::string one_of(const std::vector<std::string>& words);

template <class T>
std::vector<std::string> names_of(const Words<T>& words) {
  std::vector<std::string> names;
  for (const auto& [name, meaning] : words) names.emplace_back(name);
  return names;
}

template <class T>
T read_word(const Value& value, const Words<T>& words) {
  const std::string word = value.text();
  for (const auto& [name, meaning] : words) {
    if (word == name) return meaning;
  }
  throw value.refuse(fmt::format("{} is not known{}", value.shown(), suggest_word(word, names_of(words))));
}

template <class T>
std::string written_word(const T& meaning, const Words<T>& words) {
  for (const auto& [name, candidate] : words) {
    if (candidate == meaning) return name;
  }
  LONGWAVE_CHECK(false, "a value without a word");
}

// One word out of a list.
template <class Field>
Setting word(std::string key, Field field, Words<FieldType<Field>> words, std::string meaning) {
  return {std::move(key),
          one_of(names_of(words)),
          "",
          std::move(meaning),
          [=](Config& config, const Value& value) { field(config) = read_word(value, words); },
          [=](const Config& config) { return written_word(field(config), words); }};
}

// A list of numbers, none twice.
template <class Field>
Setting numbers(std::string key, Field field, Range range, std::string standard, std::string meaning) {
  using T = typename FieldType<Field>::value_type;
  const char* unit = std::is_same_v<T, double> ? "number" : "integer";
  return {std::move(key),
          fmt::format("list of {}s, each {}", unit, range.described()),
          std::move(standard),
          std::move(meaning),
          [=](Config& config, const Value& value) {
            std::vector<T> list;
            for (const Value& item : value.items()) {
              const T entry = read_number<T>(item, range);
              for (const T& earlier : list) {
                if (earlier == entry) throw item.refuse(fmt::format("{} is given twice", entry));
              }
              list.push_back(entry);
            }
            field(config) = list;
          },
          [=](const Config& config) {
            std::string list;
            for (const T& entry : field(config)) list += fmt::format("{}{}", list.empty() ? "" : ", ", entry);
            return "[" + list + "]";
          }};
}

// A source of tokens: a path, or {path, weight}.
DataSource read_source(const Value& value, bool weighted);

// A path, a list of paths, or a list of {path, weight}.
template <class Field>
Setting sources(std::string key, Field field, bool weighted, std::string standard, std::string meaning) {
  return {std::move(key),
          weighted ? "path, or list of paths or {path, weight}" : "path, or list of paths or {path}",
          std::move(standard),
          std::move(meaning),
          [=](Config& config, const Value& value) {
            std::vector<DataSource> list;
            if (value.is_list()) {
              for (const Value& item : value.items()) list.push_back(read_source(item, weighted));
            } else {
              list.push_back(read_source(value, weighted));
            }
            field(config) = list;
          },
          [=](const Config& config) {
            std::string list;
            for (const DataSource& source : field(config)) {
              const std::string weight = weighted ? fmt::format(", weight: {}", source.weight) : "";
              list += fmt::format("{}{{path: {}{}}}", list.empty() ? "" : ", ", written_text(source.path), weight);
            }
            return "[" + list + "]";
          }};
}

// A key that has no say unless `idle_under` gives nothing.
inline Setting only(std::string (*idle_under)(const Config&), Setting setting) {
  setting.idle_under = idle_under;
  return setting;
}

}  // namespace longwave
