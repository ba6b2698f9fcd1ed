// The communicator for the memory that a backend's tensors are in.
#pragma once

#include <memory>

#include "core/backend/backend.h"
#include "parallel/communicator.h"

namespace longwave {

// Null when that is host memory: `host` itself will do. Otherwise a communicator of the same ranks, which both outlive.
// Collective.
std::unique_ptr<Communicator> make_device_communicator(Communicator& host, Backend& backend);

}  // namespace longwave
