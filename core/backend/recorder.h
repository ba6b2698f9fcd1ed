// Work that is the same every time, down to its pointers, given to the device once and repeated by one call. A backend whose
// device can do that is a Recorder too.
#pragma once

#include <cstddef>
#include <functional>

namespace longwave {

class Recorder {
 public:
  virtual ~Recorder() = default;

  // Notes what `work` queues instead of doing it; the record before is forgotten. `work` takes and releases no memory, waits for
  // nothing, and has run before, so that what its operations need is there. What it decides on the host is decided for every
  // replay. Returns the number of operations. Throws config_error when it cannot be recorded, and what a lost rank throws.
  virtual std::size_t record(const std::function<void()>& work) = 0;
  // Queues the recorded work.
  virtual void replay() = 0;
  // Whether there is a record. Memory that operations share may have to move to grow, which forgets it.
  virtual bool recorded() const = 0;
  virtual void forget_record() = 0;
};

}  // namespace longwave
