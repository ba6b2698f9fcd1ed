// The block that runs, as block.cpp and the operations of its threads share it.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tests/simt/block.h"

namespace longwave::simt {

inline constexpr int lanes = 32;

enum class State : std::uint8_t { ready, at_barrier, at_warp_operation, finished };

// An asynchronous copy of 16 bytes that has not arrived; `from` null: zeros.
struct Copy {
  void* to;
  const void* from;
};

struct Thread {
  boost::context::detail::fcontext_t context = nullptr;
  State state = State::ready;
  Site site;  // where it waits
  std::vector<Copy> open_copies;
  std::deque<std::vector<Copy>> groups;  // committed, oldest first
};

using Complete = void (*)(void** arguments);

struct Warp {
  void* arguments[lanes] = {};
  int arrived = 0;
  Complete complete = nullptr;
  const char* operation = "";
  Site site;
  std::uint32_t barriers = 0;
};

struct StaticShared {
  const char* declaration;
  void* memory;
};

struct Block {
  const Launch* launch = nullptr;
  std::uint32_t launch_number = 0;  // from 1
  std::uint32_t number = 0;         // of this block in its launch
  int index[3] = {};
  int running = -1;  // thread
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<int> ready;
  std::size_t next_ready = 0;
  int at_barrier = 0;
  int finished = 0;
  std::uint32_t barriers = 0;
  Site barrier_site;
  std::vector<StaticShared> static_shared;
  boost::context::detail::fcontext_t scheduler = nullptr;
  const void* scheduler_stack = nullptr;
  std::size_t scheduler_stack_bytes = 0;
  bool failed = false;
};

extern Block* block;  // null on the host

// Leaves the running thread for the scheduler until somebody makes it ready.
void leave();
void make_ready(int thread);
std::string text_of(Site site);

}  // namespace longwave::simt
