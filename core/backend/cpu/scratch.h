// Working memory of the CPU operations. It grows when an operation first meets a size and is kept, so that from the second
// step on nothing is allocated. One operation uses it at a time.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/base/divide.h"
#include "core/base/error.h"

namespace longwave {

class Scratch {
 public:
  // At least `count` elements aligned to 64 bytes, of any content.
  template <class T> T* get(std::int64_t count) { return static_cast<T*>(bytes(static_cast<std::size_t>(count) * sizeof(T))); }

  void* bytes(std::size_t size) {
    if (size > capacity_) {
      capacity_ = 0;
      const std::size_t rounded = round_up(size, 4096);
      memory_.reset(std::aligned_alloc(4096, rounded));
      if (memory_ == nullptr) {
        throw config_error("no memory: {} bytes of working memory were refused; use a smaller micro-batch", size);
      }
      capacity_ = rounded;
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace longwave
