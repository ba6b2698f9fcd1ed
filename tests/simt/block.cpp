#include "tests/simt/block.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <vector>

#include "tests/simt/access.h"
#include "tests/simt/address_sanitizer.h"
#include "tests/simt/code_lines.h"
#include "tests/simt/running_block.h"

namespace longwave::simt {

Block* block = nullptr;

namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr int max_threads = 1024;
constexpr std::size_t page_bytes = 4096;
// Of a fibre, over a page that may not be touched. The address sanitizer puts space around every array.
constexpr std::size_t stack_bytes = std::size_t{under_address_sanitizer ? 512 : 64} << 10;

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

bool inside = true;  // in the emulator's code, not in a kernel's
std::vector<std::string> reports;

void report(const std::string& where, const std::string& what) {
  std::string text = fmt::format("simt: kernel {}, block ({}, {}, {}), {}: {}", block->launch->kernel, block->index[0],
                                 block->index[1], block->index[2], where, what);
  std::fprintf(stderr, "%s\n", text.c_str());
  reports.push_back(std::move(text));
  block->failed = true;
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

std::string whereabouts(int thread) {
  const Thread& own = block->threads[static_cast<std::size_t>(thread)];
  switch (own.state) {
    case State::at_barrier: return fmt::format("thread {} waits at the barrier of {}", thread, text_of(own.site));
    case State::at_warp_operation:
      return fmt::format("thread {} waits at the {} of {}", thread,
                         block->warps[static_cast<std::size_t>(thread / lanes)].operation, text_of(own.site));
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
  report(fmt::format("thread {}, {}", waiting, text_of(site)),
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

}  // namespace

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

void make_ready(int thread) {
  block->threads[static_cast<std::size_t>(thread)].state = State::ready;
  block->ready.push_back(thread);
}

std::string text_of(Site site) { return line_of_file(site.file_name(), static_cast<int>(site.line())); }

bool run_launch(const Launch& launch) {
  static std::uint32_t launches = 0;
  Block own;
  own.launch = &launch;
  own.launch_number = ++launches;
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
        ++own.number;
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

std::string Place::text() const { return code_ == nullptr ? text_of(site_) : line_of_code(code_); }

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
    fail(fmt::format("divergent barrier: others of the block wait at the barrier of {}", text_of(block->barrier_site)), site);
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

}  // namespace longwave::simt
