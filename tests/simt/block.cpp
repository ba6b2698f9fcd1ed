#include "tests/simt/block.h"

#include <sys/mman.h>

#include <bit>
#include <boost/context/detail/fcontext.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fmt/format.h>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#include "tests/simt/access.h"
#include "tests/simt/code_lines.h"

namespace longwave::simt {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr int lanes = 32;
constexpr int max_threads = 1024;
constexpr std::size_t page_bytes = 4096;
constexpr std::size_t stack_bytes = std::size_t{64} << 10;  // of a fibre, over a page that may not be touched

enum class State : std::uint8_t { ready, at_barrier, at_warp_operation, finished };

struct Copy {
  void* to;
  const void* from;
};

struct Thread {
  fcontext_t context = nullptr;
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

// The stacks of all fibres, kept between launches.
unsigned char* stacks() {
  static unsigned char* const memory = [] {
    const std::size_t bytes = max_threads * (stack_bytes + page_bytes);
    void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED) std::perror("simt: no memory for stacks"), std::abort();
    for (std::size_t i = 0; i < max_threads; ++i) {
      mprotect(static_cast<unsigned char*>(block) + i * (stack_bytes + page_bytes), page_bytes, PROT_NONE);
    }
    return static_cast<unsigned char*>(block);
  }();
  return memory;
}

unsigned char* stack_of(int thread) {
  return stacks() + static_cast<std::size_t>(thread) * (stack_bytes + page_bytes) + page_bytes;
}

struct Block {
  const Launch* launch = nullptr;
  int index[3] = {};
  int running = -1;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<int> ready;
  std::size_t next_ready = 0;
  int at_barrier = 0;
  int finished = 0;
  std::uint32_t barriers = 0;
  Site barrier_site;
  std::vector<StaticShared> static_shared;
  fcontext_t scheduler = nullptr;
  const void* scheduler_stack = nullptr;
  std::size_t scheduler_stack_bytes = 0;
  bool failed = false;
};

Block* block = nullptr;  // what runs; null on the host
bool inside = true;       // in the emulator's code, not in a kernel's
std::vector<std::string> reports;

std::string place(Site site) { return fmt::format("{}:{}", site.file_name(), site.line()); }

void report(const std::string& where, const std::string& what) {
  std::string text = fmt::format("simt: kernel {}, block ({}, {}, {}), {}: {}", block->launch->kernel, block->index[0],
                                 block->index[1], block->index[2], where, what);
  std::fprintf(stderr, "%s\n", text.c_str());
  reports.push_back(std::move(text));
  block->failed = true;
}

// Leaves the running fibre for the scheduler until it is resumed.
void leave() {
#ifdef __SANITIZE_ADDRESS__
  void* fake = nullptr;
  const bool for_good = block->failed || block->threads[static_cast<std::size_t>(block->running)].state == State::finished;
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake, block->scheduler_stack, block->scheduler_stack_bytes);
#endif
  block->scheduler = jump_fcontext(block->scheduler, nullptr).fctx;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake, &block->scheduler_stack, &block->scheduler_stack_bytes);
#endif
}

void run_thread(transfer_t from) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &block->scheduler_stack, &block->scheduler_stack_bytes);
#endif
  block->scheduler = from.fctx;
  inside = false;
  block->launch->run(block->launch->arguments.get());
  inside = true;
  Thread& own = block->threads[static_cast<std::size_t>(block->running)];
  own.state = State::finished;
  ++block->finished;
  leave();
  std::abort();  // a finished fibre is not resumed
}

void resume(int thread) {
  Thread& target = block->threads[static_cast<std::size_t>(thread)];
  block->running = thread;
#ifdef __SANITIZE_ADDRESS__
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack_of(thread), stack_bytes);
#endif
  target.context = jump_fcontext(target.context, nullptr).fctx;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void make_ready(int thread) {
  block->threads[static_cast<std::size_t>(thread)].state = State::ready;
  block->ready.push_back(thread);
}

std::string whereabouts(int thread) {
  const Thread& own = block->threads[static_cast<std::size_t>(thread)];
  switch (own.state) {
    case State::at_barrier: return fmt::format("thread {} waits at the barrier of {}", thread, place(own.site));
    case State::at_warp_operation:
      return fmt::format("thread {} waits at the {} of {}", thread,
                         block->warps[static_cast<std::size_t>(thread / lanes)].operation, place(own.site));
    case State::finished: return fmt::format("thread {} has left the kernel", thread);
    case State::ready: break;
  }
  return fmt::format("thread {} runs", thread);
}

// Nobody can go on and somebody waits: names the first that waits and the first that is elsewhere.
void report_stall() {
  int waiting = 0;
  while (block->threads[static_cast<std::size_t>(waiting)].state == State::finished) ++waiting;
  const State state = block->threads[static_cast<std::size_t>(waiting)].state;
  const int begin = state == State::at_barrier ? 0 : waiting / lanes * lanes;
  int other = begin;
  while (block->threads[static_cast<std::size_t>(other)].state == state) ++other;
  const Site site = block->threads[static_cast<std::size_t>(waiting)].site;
  report(fmt::format("thread {}, {}", waiting, place(site)),
         fmt::format("divergent {}: {}", state == State::at_barrier ? "barrier" : "warp operation", whereabouts(other)));
}

bool run_block() {
  const auto threads = static_cast<std::size_t>(block->launch->threads);
  block->threads.assign(threads, {});
  block->warps.assign(threads / lanes, {});
  block->ready.clear();
  block->next_ready = 0;
  block->at_barrier = block->finished = 0;
  block->barriers = 0;
  block->static_shared.clear();
  begin_block(block->launch->shared_bytes);
  for (std::size_t i = 0; i < threads; ++i) {
    block->threads[i].context = make_fcontext(stack_of(static_cast<int>(i)) + stack_bytes, stack_bytes, run_thread);
    block->ready.push_back(static_cast<int>(i));
  }
  while (block->next_ready < block->ready.size() && !block->failed) {
    resume(block->ready[block->next_ready++]);
    if (block->next_ready == block->ready.size()) block->ready.clear(), block->next_ready = 0;
  }
  if (!block->failed && block->finished < block->launch->threads) report_stall();
  block->running = -1;
  return !block->failed;
}

// The running lane's part of a warp operation. The last lane to arrive does the work of all.
void join_warp(const char* operation, Complete complete, void* arguments, Site site) {
  const int thread = block->running;
  Warp& warp = block->warps[static_cast<std::size_t>(thread / lanes)];
  if (warp.arrived == 0) {
    warp.operation = operation;
    warp.complete = complete;
    warp.site = site;
  } else if (warp.complete != complete || warp.site.line() != site.line() ||
             std::strcmp(warp.site.file_name(), site.file_name()) != 0) {
    fail(fmt::format("divergent warp operation: {}, while others of the warp wait at the {} of {}", operation, warp.operation,
                     place(warp.site)),
         site);
  }
  warp.arguments[thread % lanes] = arguments;
  if (++warp.arrived < lanes) {
    Thread& own = block->threads[static_cast<std::size_t>(thread)];
    own.state = State::at_warp_operation;
    own.site = site;
    leave();
    return;
  }
  warp.arrived = 0;
  complete(warp.arguments);
  const int first = thread / lanes * lanes;
  for (int lane = 0; lane < lanes; ++lane) {
    if (first + lane != thread) make_ready(first + lane);
  }
}

struct Shuffle {
  std::uint64_t value;
  int source;  // lane
  std::uint64_t result = 0;
};

void complete_shuffle(void** arguments) {
  for (int lane = 0; lane < lanes; ++lane) {
    auto* own = static_cast<Shuffle*>(arguments[lane]);
    own->result = static_cast<const Shuffle*>(arguments[own->source])->value;
  }
}

std::uint64_t shuffle_from(std::uint64_t value, int source, Site site) {
  if (source < 0 || source >= lanes) fail(fmt::format("shuffle from lane {}", source), site);
  Shuffle own = {value, source};
  join_warp("shuffle", complete_shuffle, &own, site);
  return own.result;
}

struct Vote {
  bool condition;
  bool result = false;
};

struct Mma {
  float* c;                // [4]
  const std::uint32_t* a;  // [4]
  std::uint32_t b[2];
};

float low_half(std::uint32_t word) { return std::bit_cast<float>(word << 16); }
float high_half(std::uint32_t word) { return std::bit_cast<float>(word & 0xffff0000u); }

// Fragments of mma.m16n8k16: lane 4 g + t holds rows g and g + 8 of A and C, column g of B; t counts pairs of columns.
void complete_mma(void** arguments) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < lanes; ++lane) {
    const auto* own = static_cast<const Mma*>(arguments[lane]);
    const int g = lane / 4, t = lane % 4 * 2;
    for (int part = 0; part < 4; ++part) {
      float* const row = a[g + part % 2 * 8] + t + part / 2 * 8;
      row[0] = low_half(own->a[part]);
      row[1] = high_half(own->a[part]);
    }
    for (int part = 0; part < 2; ++part) {
      b[t + part * 8][g] = low_half(own->b[part]);
      b[t + part * 8 + 1][g] = high_half(own->b[part]);
    }
  }
  float sum[16][8] = {};
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) {
      for (int j = 0; j < 8; ++j) sum[i][j] += a[i][k] * b[k][j];
    }
  }
  for (int lane = 0; lane < lanes; ++lane) {
    float* const c = static_cast<const Mma*>(arguments[lane])->c;
    const int g = lane / 4, t = lane % 4 * 2;
    c[0] += sum[g][t];
    c[1] += sum[g][t + 1];
    c[2] += sum[g + 8][t];
    c[3] += sum[g + 8][t + 1];
  }
}

struct MatrixLoad {
  const void* row;
  bool transposed;
  std::uint32_t* to;  // [4]
};

void complete_matrix_load(void** arguments) {
  for (int matrix = 0; matrix < 4; ++matrix) {
    const std::uint16_t* rows[8];
    for (int row = 0; row < 8; ++row) {
      rows[row] = static_cast<const std::uint16_t*>(static_cast<const MatrixLoad*>(arguments[matrix * 8 + row])->row);
    }
    for (int lane = 0; lane < lanes; ++lane) {
      const auto* own = static_cast<const MatrixLoad*>(arguments[lane]);
      const int g = lane / 4, t = lane % 4 * 2;
      const std::uint16_t low = own->transposed ? rows[t][g] : rows[g][t];
      const std::uint16_t high = own->transposed ? rows[t + 1][g] : rows[g][t + 1];
      own->to[matrix] = static_cast<std::uint32_t>(high) << 16 | low;
    }
  }
}

void check_alignment(const void* address, Site site) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) fail("a 16-byte access to an address that is no multiple of 16", site);
}

}  // namespace

bool run_launch(const Launch& launch) {
  Block own;
  own.launch = &launch;
  if (launch.threads <= 0 || launch.threads > max_threads || launch.threads % lanes != 0 || launch.shared_bytes > shared_limit) {
    reports.push_back(fmt::format("simt: kernel {}: launch of {} threads with {} bytes of shared memory", launch.kernel,
                                  launch.threads, launch.shared_bytes));
    return false;
  }
  block = &own;
  bool good = true;
  for (std::int64_t z = 0; good && z < launch.grid[2]; ++z) {
    for (std::int64_t y = 0; good && y < launch.grid[1]; ++y) {
      for (std::int64_t x = 0; good && x < launch.grid[0]; ++x) {
        own.index[0] = static_cast<int>(x), own.index[1] = static_cast<int>(y), own.index[2] = static_cast<int>(z);
        good = run_block();
      }
    }
  }
  block = nullptr;
  return good;
}

std::vector<std::string> take_reports() { return std::exchange(reports, {}); }

int block_threads() { return block->launch->threads; }
int grid_extent(int axis) { return static_cast<int>(block->launch->grid[axis]); }
int thread_index() { return block->running; }
int block_index(int axis) { return block->index[axis]; }
bool in_kernel() { return !inside; }
InEmulator::InEmulator() { inside = true; }
InEmulator::~InEmulator() { inside = false; }

Moment now() {
  const auto thread = static_cast<std::uint16_t>(block->running);
  return {block->barriers, block->warps[thread / lanes].barriers, thread};
}

std::string Place::text() const { return code_ == nullptr ? place(site_) : line_of_code(code_); }

void fail(const std::string& what, Place place) {
  report(fmt::format("thread {}, {}", block->running, place.text()), what);
  leave();
  std::abort();
}

bool on_stack_or_arguments(const void* address, std::size_t bytes) {
  const auto* first = static_cast<const unsigned char*>(address);
  const auto within = [&](const unsigned char* begin, std::size_t size) { return begin <= first && first + bytes <= begin + size; };
  return within(stack_of(block->running), stack_bytes) ||
         within(static_cast<const unsigned char*>(block->launch->arguments.get()), block->launch->argument_bytes);
}

void barrier(Site site) {
  const InEmulator guard;
  Thread& own = block->threads[static_cast<std::size_t>(block->running)];
  if (block->at_barrier == 0) {
    block->barrier_site = site;
  } else if (block->barrier_site.line() != site.line() ||
             std::strcmp(block->barrier_site.file_name(), site.file_name()) != 0) {
    fail(fmt::format("divergent barrier: others of the block wait at the barrier of {}", place(block->barrier_site)), site);
  }
  if (++block->at_barrier < block->launch->threads) {
    own.state = State::at_barrier;
    own.site = site;
    leave();
    return;
  }
  block->at_barrier = 0;
  ++block->barriers;
  for (int thread = 0; thread < block->launch->threads; ++thread) {
    if (thread != block->running) make_ready(thread);
  }
}

void warp_barrier(Site site) {
  const InEmulator guard;
  join_warp("warp barrier", [](void** arguments) { ++*static_cast<std::uint32_t*>(arguments[0]); },
            &block->warps[static_cast<std::size_t>(block->running / lanes)].barriers, site);
}

std::uint64_t shuffle_xor(std::uint64_t value, int other, Site site) {
  const InEmulator guard;
  return shuffle_from(value, block->running % lanes ^ other, site);
}

std::uint64_t shuffle(std::uint64_t value, int lane, Site site) {
  const InEmulator guard;
  return shuffle_from(value, lane, site);
}

bool any(bool condition, Site site) {
  const InEmulator guard;
  Vote own = {condition};
  join_warp(
      "vote",
      [](void** arguments) {
        bool result = false;
        for (int lane = 0; lane < lanes; ++lane) result |= static_cast<const Vote*>(arguments[lane])->condition;
        for (int lane = 0; lane < lanes; ++lane) static_cast<Vote*>(arguments[lane])->result = result;
      },
      &own, site);
  return own.result;
}

void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1, Site site) {
  const InEmulator guard;
  Mma own = {c, a, {b0, b1}};
  join_warp("mma", complete_mma, &own, site);
}

void load_matrices(std::uint32_t (&to)[4], const void* row, bool transposed, Site site) {
  const InEmulator guard;
  check_alignment(row, site);
  check_access(row, 16, false, site);
  MatrixLoad own = {row, transposed, to};
  join_warp("ldmatrix", complete_matrix_load, &own, site);
}

void* static_shared(std::size_t bytes, const char* declaration) {
  const InEmulator guard;
  for (const StaticShared& known : block->static_shared) {
    if (known.declaration == declaration) return known.memory;
  }
  void* memory = take_static_shared(bytes);
  if (memory == nullptr) fail(fmt::format("{} bytes of static shared memory are too many", bytes), Site::current());
  block->static_shared.push_back({declaration, memory});
  return memory;
}

unsigned char* dynamic_shared() { return shared_dynamic(); }

void load16(std::uint32_t (&to)[4], const void* from, Site site) {
  const InEmulator guard;
  check_alignment(from, site);
  check_access(from, 16, false, site);
  std::memcpy(to, from, 16);
}

void store16(void* to, const std::uint32_t (&from)[4], Site site) {
  const InEmulator guard;
  check_alignment(to, site);
  check_access(to, 16, true, site);
  std::memcpy(to, from, 16);
}

void copy_async16(void* to, const void* from, bool valid, Site site) {
  const InEmulator guard;
  check_alignment(to, site);
  check_alignment(from, site);
  if (valid) check_access(from, 16, false, site);
  start_copy(to, 16, site);
  block->threads[static_cast<std::size_t>(block->running)].open_copies.push_back({to, valid ? from : nullptr});
}

void copy_async_commit() {
  const InEmulator guard;
  Thread& own = block->threads[static_cast<std::size_t>(block->running)];
  own.groups.push_back(std::exchange(own.open_copies, {}));
}

void copy_async_wait(int groups) {
  const InEmulator guard;
  Thread& own = block->threads[static_cast<std::size_t>(block->running)];
  while (own.groups.size() > static_cast<std::size_t>(groups)) {
    for (const Copy& copy : own.groups.front()) finish_copy(copy.to, copy.from, 16);
    own.groups.pop_front();
  }
}

std::uint16_t round_to_bf16(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  if ((word & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(word >> 16 | 0x40u);
  return static_cast<std::uint16_t>((word + 0x7fffu + (word >> 16 & 1u)) >> 16);
}

}  // namespace longwave::simt
