// The metrics of a run as TensorBoard event files, for people who watch runs there. A file is a TFRecord stream (length,
// masked CRC-32C of it, data, masked CRC-32C of that) of Event messages, encoded here by hand: three message types are too
// few to bring protobuf in for (tensorflow/core/util/event.proto and framework/summary.proto give the field numbers).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/file.h"
#include "core/base/json.h"

namespace longwave {

// CRC-32C (Castagnoli), as of RFC 3720.
std::uint32_t crc32c(std::string_view bytes);

class TensorboardLog {
 public:
  // A new file in RUN/tensorboard for each attempt. Throws io errors.
  TensorboardLog(const std::string& run_directory, int attempt);

  // Every number of a metrics line but "step" as a scalar of that name at that step.
  void append(const Json& metrics);

 private:
  void write_record(std::string_view event);

  File file_;
};

}  // namespace longwave
