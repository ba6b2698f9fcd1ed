// What every Communicator must do, whatever carries its messages: instantiate CommunicatorSuite with a world of the
// implementation and the memory it moves.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "parallel/communicator.h"

namespace longwave {

struct CommunicatorUnderTest {
  std::string name;
  std::function<std::unique_ptr<Communicator>()> make_world;  // all ranks; collective
  std::function<void*(std::size_t bytes)> allocate;
  std::function<void(void*)> release;
  std::function<void(void* to, const void* from, std::size_t bytes)> upload;
  std::function<void(void* to, const void* from, std::size_t bytes)> download;  // after the work submitted so far
};

class CommunicatorSuite : public testing::TestWithParam<CommunicatorUnderTest> {};

}  // namespace longwave
