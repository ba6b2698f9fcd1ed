#include "core/backend/cpu/memory.h"

#include <sys/mman.h>

#include <cstdlib>

#include "core/backend/cpu/elementwise.h"
#include "core/base/error.h"

namespace longwave {
namespace {

constexpr std::size_t small_alignment = 256;
constexpr std::size_t huge_page = std::size_t{2} << 20;

}  // namespace

void* allocate_block(std::size_t bytes) {
  const std::size_t alignment = bytes >= 2 * huge_page ? huge_page : small_alignment;
  const std::size_t rounded = (bytes / alignment + 1) * alignment;
  void* block = rounded > bytes ? std::aligned_alloc(alignment, rounded) : nullptr;
  if (block == nullptr) {
    throw config_error("no memory: {} bytes ({:.1f} GiB) were refused; use a smaller model or micro-batch, or more ranks", bytes,
                       static_cast<double>(bytes) / (1 << 30));
  }
  // Advice: a kernel without transparent huge pages refuses it and nothing is lost but speed.
  if (alignment == huge_page) (void)madvise(block, rounded, MADV_HUGEPAGE);
  zero_cpu(Tensor(block, DType::f32, {static_cast<std::int64_t>(rounded / sizeof(float))}));
  return block;
}

void release_block(void* pointer) { std::free(pointer); }

}  // namespace longwave
