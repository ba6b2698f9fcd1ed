// How a checkpoint cuts tensors. A logical tensor is seen as a matrix, its first axis by everything behind it, and a slice is
// a rectangle of that matrix. So any mesh can read what any other has written: it intersects rectangles.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/model/parameter_store.h"

namespace longwave {

// Rows [row_begin, row_end) and columns [column_begin, column_end).
struct Rectangle {
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  std::int64_t column_begin = 0;
  std::int64_t column_end = 0;

  std::int64_t rows() const { return row_end - row_begin; }
  std::int64_t columns() const { return column_end - column_begin; }
  std::int64_t count() const { return rows() * columns(); }
  bool operator==(const Rectangle&) const = default;
};

// The whole matrix of a tensor of this shape: [] is 1 x 1, [n] is n x 1, [a, b, c] is a x (b c).
Rectangle whole_of(const std::vector<std::int64_t>& shape);

std::optional<Rectangle> intersection(const Rectangle& a, const Rectangle& b);

std::vector<std::int64_t> extents(const Shape& shape);

// A part of a run of elements, and where in the run it begins.
struct RunPiece {
  Rectangle rectangle;
  std::int64_t offset = 0;
};

// Elements [begin, begin + count) of this shard's row-major part of a parameter, as at most three rectangles of the logical
// matrix; padding rows are left out. The elements of a rectangle lie in the run one behind the other.
std::vector<RunPiece> pieces_of_run(const Parameter& parameter, std::int64_t begin, std::int64_t count);

}  // namespace longwave
