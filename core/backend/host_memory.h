// Owns host memory of a backend: what the device copies from and to while the host goes on.
#pragma once

#include <utility>

#include "core/backend/backend.h"

namespace longwave {

class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(Backend& backend, std::size_t bytes) : backend_(&backend), data_(backend.allocate_host(bytes)) {}
  HostMemory(HostMemory&& other) noexcept : backend_(other.backend_), data_(std::exchange(other.data_, nullptr)) {}
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(backend_, other.backend_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~HostMemory() {
    if (data_ != nullptr) backend_->release_host(data_);
  }

  template <class T> T* as() const { return static_cast<T*>(data_); }

 private:
  Backend* backend_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace longwave
