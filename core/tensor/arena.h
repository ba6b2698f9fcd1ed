// One block of memory laid out before step 0. The same layout code runs twice: first over an arena without memory, which
// only counts (this is what `longwave plan` prints), then over one with memory of that size. Nothing is ever given back
// except by rewinding to a mark, which is how buffers that are never alive together share their bytes.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/base/divide.h"
#include "core/base/error.h"
#include "core/tensor/tensor.h"

namespace longwave {

class Arena {
 public:
  static constexpr std::size_t alignment = 256;

  Arena() = default;  // counts only
  Arena(void* base, std::size_t capacity) : base_(static_cast<char*>(base)), capacity_(capacity) {}

  Tensor allocate(DType dtype, Shape shape) {
    Tensor tensor(nullptr, dtype, shape);
    const std::size_t bytes = round_up(tensor.bytes(), alignment);
    if (base_ != nullptr) {
      LONGWAVE_CHECK(used_ + bytes <= capacity_, "arena of {} bytes is too small", capacity_);
      tensor.data = base_ + used_;
    }
    used_ += bytes;
    peak_ = std::max(peak_, used_);
    return tensor;
  }

  std::size_t mark() const { return used_; }
  void rewind(std::size_t mark) { used_ = mark; }
  std::size_t peak() const { return peak_; }

 private:
  char* base_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace longwave
