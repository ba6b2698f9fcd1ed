// Warp operations: each lane brings its part and waits; the last to arrive does the work of all 32.
#include <bit>
#include <cstring>
#include <fmt/format.h>

#include "tests/simt/access.h"
#include "tests/simt/running_block.h"

namespace longwave::simt {
namespace {

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
                     text_of(warp.site)),
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

}  // namespace

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

}  // namespace longwave::simt
