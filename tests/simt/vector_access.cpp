// Accesses of sixteen bytes, by the thread and asynchronous, and what bf16 rounds to.
#include <bit>
#include <cstring>
#include <utility>

#include "tests/simt/access.h"
#include "tests/simt/running_block.h"

namespace longwave::simt {

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
