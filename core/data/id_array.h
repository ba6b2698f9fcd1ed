// Token ids as files hold them: little-endian uint16 or uint32 in mapped memory, widened and checked as they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace longwave {

struct IdArray {
  const std::byte* data = nullptr;
  int width = 2;           // bytes a token: 2 or 4
  std::int64_t count = 0;  // tokens

  std::int64_t at(std::int64_t index) const;
  // Widens ids [begin, begin + n) to `out`, without a check.
  void widen(std::int64_t begin, std::int64_t n, std::int32_t* out) const;
  // The first index in [begin, begin + n) whose id is at or above `limit`, else -1.
  std::int64_t find_above(std::int64_t limit, std::int64_t begin, std::int64_t n) const;
};

// What bounds ids: the file's own vocabulary, the model's, and what an int32 holds; 0 is no bound.
std::int64_t id_limit(std::int64_t file_vocabulary, std::int64_t model_vocabulary);

// Throws data_error naming file, token and byte offset of an id at or above the limit in [begin, begin + n).
// `data_offset` is where the ids begin in the file.
void check_ids(const IdArray& ids, std::int64_t limit, std::int64_t begin, std::int64_t n, const std::string& path,
               std::int64_t data_offset);

// Throws a LONGWAVE_CHECK failure unless [begin, begin + count) is inside a source of `size` tokens.
void check_range(std::int64_t begin, std::int64_t count, std::int64_t size, const std::string& name);

}  // namespace longwave
