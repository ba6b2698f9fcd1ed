#include "jobs/run_directory/tensorboard_log.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>

#include "core/base/host.h"

namespace longwave {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = value;
  }
  return table;
}

// Checksums of data that hold checksums are weak; the format rotates and shifts them.
std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

template <class T>
void append_raw(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  to.append(bytes, sizeof(T));
}

void append_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

// Wire types of protobuf: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
void append_tag(std::string& to, std::uint32_t field, std::uint32_t wire_type) { append_varint(to, field << 3 | wire_type); }

void append_bytes(std::string& to, std::uint32_t field, std::string_view bytes) {
  append_tag(to, field, 2);
  append_varint(to, bytes.size());
  to += bytes;
}

double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string new_event() {
  std::string event;
  append_tag(event, 1, 1);  // wall_time
  append_raw(event, seconds_since_epoch());
  return event;
}

std::string file_name(int attempt) {
  return fmt::format("events.out.tfevents.{:.0f}.{}.{}", seconds_since_epoch(), host_name(), attempt);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> table = crc_table();
  std::uint32_t crc = 0xffffffffu;
  for (const char byte : bytes) crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xffu] ^ (crc >> 8);
  return ~crc;
}

TensorboardLog::TensorboardLog(const std::string& run_directory, int attempt) {
  const std::string folder = run_directory + "/tensorboard";
  make_directories(folder);
  file_ = File::append(folder + "/" + file_name(attempt));
  std::string event = new_event();
  append_bytes(event, 3, "brain.Event:2");  // file_version, which must come first
  write_record(event);
}

void TensorboardLog::append(const Json& metrics) {
  std::string summary;
  for (const auto& [name, value] : metrics.items()) {
    if (name == "step" || !value.is_number()) continue;
    std::string scalar;
    append_bytes(scalar, 1, name);  // tag
    append_tag(scalar, 2, 5);       // simple_value
    append_raw(scalar, value.get<float>());
    append_bytes(summary, 1, scalar);
  }
  std::string event = new_event();
  append_tag(event, 2, 0);  // step
  append_varint(event, metrics.at("step").get<std::uint64_t>());
  append_bytes(event, 5, summary);
  write_record(event);
}

void TensorboardLog::write_record(std::string_view event) {
  std::string length;
  append_raw(length, static_cast<std::uint64_t>(event.size()));
  std::string record = length;
  append_raw(record, masked(crc32c(length)));
  record += event;
  append_raw(record, masked(crc32c(event)));
  file_.write(record);
}

}  // namespace longwave
