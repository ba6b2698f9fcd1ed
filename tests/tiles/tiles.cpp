#include "tests/tiles/tiles.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace longwave::emulated_tiles {
namespace {

constexpr int rows = 16, words = 16;  // of a tile; a word is an fp32 sum or two bf16
typedef float Row __attribute__((vector_size(4 * words)));
typedef std::uint32_t WordRow __attribute__((vector_size(4 * words)));

struct Tiles {
  bool configured = false;
  std::size_t products = 0;
  Row row[8][rows] = {};
};
thread_local Tiles own;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "emulated AMX tiles: %s\n", what);
  std::abort();
}

Tiles& configured() {
  if (!own.configured) fail("used where no configuration is loaded");
  return own;
}

// The bf16 of each word that is first in memory, and the other one.
Row first_of(WordRow pairs) { return reinterpret_cast<Row>(pairs << 16); }
Row second_of(WordRow pairs) { return reinterpret_cast<Row>(pairs & 0xffff0000u); }

}  // namespace

void load_configuration(const void* configuration) {
  std::uint8_t bytes[64];
  std::memcpy(bytes, configuration, sizeof(bytes));
  if (bytes[0] != 1 || bytes[1] != 0) fail("a configuration of another palette, or of a load that was interrupted");
  for (int tile = 0; tile < 8; ++tile) {
    const int bytes_a_row = bytes[16 + 2 * tile] + 256 * bytes[17 + 2 * tile];
    if (bytes_a_row != 4 * words || bytes[48 + tile] != rows) fail("a configuration with smaller tiles");
  }
  own.configured = true;
  std::memset(own.row, 0, sizeof(own.row));
}

void release() { own.configured = false; }

void zero(int tile) { std::memset(configured().row[tile], 0, sizeof(own.row[tile])); }

void load(int tile, const void* from, std::size_t stride) {
  Tiles& tiles = configured();
  for (int i = 0; i < rows; ++i) {
    std::memcpy(&tiles.row[tile][i], static_cast<const char*>(from) + static_cast<std::size_t>(i) * stride, sizeof(Row));
  }
}

void store(int tile, void* to, std::size_t stride) {
  const Tiles& tiles = configured();
  for (int i = 0; i < rows; ++i) {
    std::memcpy(static_cast<char*>(to) + static_cast<std::size_t>(i) * stride, &tiles.row[tile][i], sizeof(Row));
  }
}

// The two products of a pair are summed apart, each by fused multiplications, and their sums then added to the tile.
void multiply(int sums, int left, int right) {
  Tiles& tiles = configured();
  ++tiles.products;
  for (int m = 0; m < rows; ++m) {
    std::uint32_t pairs[words];
    std::memcpy(pairs, &tiles.row[left][m], sizeof(pairs));
    Row first{}, second{};
    for (int k = 0; k < words; ++k) {
      const WordRow both = WordRow{} + pairs[k];
      const WordRow column_pairs = reinterpret_cast<WordRow>(tiles.row[right][k]);
      first += first_of(both) * first_of(column_pairs);
      second += second_of(both) * second_of(column_pairs);
    }
    tiles.row[sums][m] += first + second;
  }
}

std::size_t products() { return own.products; }

}  // namespace longwave::emulated_tiles
